// Streaming softmax attention on tensor cores: factors in bf16, everything else (sums, maxima, exponentials,
// statistics) in f32. Inputs are first rounded into packed copies, padded to whole tiles, and transposed if a product
// needs that. A warp has 16 rows of queries (or, for dK and dV, of keys); its scores never leave its registers.
#include "engine/cuda/attention/softmax_attention_bf16.h"

#include <cmath>
#include <limits>

#include "engine/cuda/parts/packed.h"
#include "engine/cuda/parts/philox.h"
#include "engine/cuda/parts/warp_tile.h"
#include "engine/precision.h"

namespace bochner::cuda {
namespace {

constexpr int kForwardWarps = 4;   // 64 queries to a block
constexpr int kBackwardWarps = 4;  // 64 queries, or keys
constexpr float kLn2 = 0.693147181f;

struct Attention {
  int64_t heads, queries, keys;
  int64_t padded_queries, padded_keys;
  bool causal;
  FactorReader<float>::Params drop;
  KeyMask mask;

  Attention(const Tensor& Q, const Tensor& K, const Tensor& key_mask, const SoftmaxAttentionOptions& options)
      : heads(Q.size(1)),
        queries(Q.size(2)),
        keys(K.size(2)),
        padded_queries(padded_length(queries)),
        padded_keys(padded_length(keys)),
        causal(options.causal),
        drop(options.dropout),
        mask(key_mask) {}

  BOCHNER_DEVICE float factor(int64_t job, int64_t query, int64_t key) const {
    const int64_t element = (job * queries + query) * keys + key;
    return FactorReader<float>(drop, element)(element);
  }
  /// 0 for a key that can be seen, else -infinity.
  BOCHNER_DEVICE float bias(int64_t job, int64_t key) const {
    return key < keys && mask.real(job / heads, key) ? 0.0f : -std::numeric_limits<float>::infinity();
  }
};

struct Larger2 {
  BOCHNER_DEVICE float operator()(float a, float b) const { return a > b ? a : b; }
};

/// 2^(S - lse), bounded by 1 since scores are rounded; 0 if S - lse is NaN, as for a query that sees no key.
BOCHNER_DEVICE inline float probability(float below) {
  return below >= 0 || below < 0 ? fast_exp2(below < 0 ? below : 0.0f) : 0.0f;
}

/// O and lse; a block for 64 queries of a head. Scores are in units of log 2. The next tile of keys is loaded while one
/// is used.
template <int D, bool drops>
struct Forward {
  static constexpr int kRows = 16 * kForwardWarps;
  static constexpr int kShare = kWarpShare<kForwardWarps>;
  static constexpr int kKeys = kTile * (D + kGap);
  static constexpr int kValues = D * (kTile + kGap);
  static constexpr size_t kShared = 2 * (sizeof(bfloat16) * (kKeys + kValues) + sizeof(float) * kTile);

  Attention a;
  const bfloat16 *q, *k, *vt;  ///< packed; q times scale log2 e
  StoredTokens O;
  float* logsumexp;

  struct Rows {
    Left<D / 16> q;
    Sum<D / 8> o;
    RowValues top, sum;
  };

  /// Keys and values of a tile, and what is added to its scores.
  struct Tile {
    bfloat16 *k, *v;
    float* bias;

    /// One of two.
    BOCHNER_DEVICE Tile(bfloat16* memory, int which)
        : k(memory + which * (kKeys + kValues)),
          v(k + kKeys),
          bias(reinterpret_cast<float*>(memory + 2 * (kKeys + kValues)) + which * kTile) {}
  };
  template <class Team>
  BOCHNER_DEVICE void begin_load(const Team& team, int64_t job, int64_t key, const Tile& to) const {
    begin_copy(team, k + (job * a.padded_keys + key) * D, D, kTile, D, to.k, D + kGap);
    begin_copy(team, vt + job * D * a.padded_keys + key, a.padded_keys, D, kTile, to.v, kTile + kGap);
    for (int i = team.rank(); i < kTile; i += team.size()) to.bias[i] = a.bias(job, key + i);
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    const int64_t tiles = ceil_div(a.queries, kRows);
    const int64_t job = team.index() / tiles;
    const int64_t first = team.index() % tiles * kRows;
    auto* memory = team.template shared<bfloat16>();
    Rows rows[kShare];
    for (int s = 0; s < kShare; ++s) {
      rows[s].q.load(q + (job * a.padded_queries + first + 16 * warp_of(team, s)) * D, D);
      rows[s].o.clear();
      rows[s].top = RowValues::filled(kNothing);
      rows[s].sum = RowValues::filled(0);
    }
    const int64_t visible = a.causal && first + kRows < a.keys ? first + kRows : a.keys;
    if (visible > 0) begin_load(team, job, 0, Tile(memory, 0));
    for (int64_t key = 0; key < visible; key += kTile) {
      const int which = static_cast<int>(key / kTile % 2);
      const Tile tile(memory, which);
      wait_for_copies();
      team.sync();  // all threads have this tile, and have read the one before
      if (key + kTile < visible) begin_load(team, job, key + kTile, Tile(memory, 1 - which));
      for (int s = 0; s < kShare; ++s) {
        Rows& own = rows[s];
        const int64_t query = first + 16 * warp_of(team, s);
        Sum<kTile / 8> score;
        score.clear();
        multiply(score, own.q, tile.k, D + kGap);
        const bool edge = a.causal && key + kTile > query;
        score.each([&](int row, int column, float& x) {
          x += tile.bias[column];
          if (edge && key + column > query + row) x = kNothing;
        });
        const RowValues top = RowValues::of(own.top, score.rows(Larger2{}), Larger2{});
        const RowValues factor = RowValues::of(own.top, top, [](float before, float now) {
          return now == -std::numeric_limits<float>::infinity() ? 1.0f : fast_exp2(before - now);
        });
        own.top = top;
        score.each(top, [&](int, int, float& x, float largest) { x = x == kNothing ? 0.0f : fast_exp2(x - largest); });
        const RowValues sum = score.rows(Plus{});
        own.sum = RowValues::of(RowValues::of(own.sum, factor, [](float x, float y) { return x * y; }), sum, Plus{});
        own.o.each(factor, [](int, int, float& x, float by) { x *= by; });
        if constexpr (drops) {
          score.each([&](int row, int column, float& x) {
            if (x > 0 && query + row < a.queries && a.factor(job, query + row, key + column) == 0) x = 0;
          });
        }
        multiply(own.o, Left<kTile / 16>::of(score), tile.v, kTile + kGap);
      }
    }
    // Dropout's scale is applied outside P, so that the elements kept are rounded as without dropout.
    const float scale = drops ? a.drop.scale : 1.0f;
    const StoredTokens::Head to = O.head(job / a.heads, job % a.heads);
    for (int s = 0; s < kShare; ++s) {
      Rows& own = rows[s];
      const int64_t query = first + 16 * warp_of(team, s);
      own.o.each(own.sum, [&](int row, int column, float& x, float sum) {
        if (query + row < a.queries) to.put(query + row, column, sum > 0 ? scale * x / sum : 0.0f);
      });
      RowValues lse = RowValues::of(own.top, own.sum, [](float top, float sum) {
        return sum > 0 ? top * kLn2 + math::log(sum) : -std::numeric_limits<float>::infinity();
      });
      lse.each([&](int row, float& x) {
        if (RowValues::first() && query + row < a.queries) logsumexp[job * a.queries + query + row] = x;
      });
    }
  }
};

/// dQ; a block for 64 queries of a head:  P = 2^(S - lse),  dS = P (dO V^T - delta),  dQ = scale dS K.
template <int D, bool drops>
struct QueryGradients {
  static constexpr int kRows = 16 * kBackwardWarps;
  static constexpr int kShare = kWarpShare<kBackwardWarps>;
  static constexpr size_t kShared =
      sizeof(bfloat16) * (2 * kTile * (D + kGap) + D * (kTile + kGap)) + sizeof(float) * (kTile + 2 * kRows);

  Attention a;
  float scale;
  const bfloat16 *q, *g, *k, *v, *kt;
  const float *logsumexp, *delta;
  StoredTokens dQ;

  struct Rows {
    Left<D / 16> q, g;
    Sum<D / 8> dq;
    RowValues lse, delta;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = ceil_div(a.queries, kRows);
    const int64_t job = team.index() / tiles;
    const int64_t first = team.index() % tiles * kRows;
    auto* tile_k = team.template shared<bfloat16>();
    bfloat16* tile_v = tile_k + kTile * (D + kGap);
    bfloat16* tile_kt = tile_v + kTile * (D + kGap);
    auto* bias = reinterpret_cast<float*>(tile_kt + D * (kTile + kGap));
    Rows rows[kShare];
    for (int s = 0; s < kShare; ++s) {
      const int64_t query = first + 16 * warp_of(team, s);
      rows[s].q.load(q + (job * a.padded_queries + query) * D, D);
      rows[s].g.load(g + (job * a.padded_queries + query) * D, D);
      rows[s].dq.clear();
      rows[s].lse.each([&](int row, float& x) {
        const float lse = query + row < a.queries ? logsumexp[job * a.queries + query + row] : 0.0f;
        x = lse > -std::numeric_limits<float>::infinity() ? lse * kLog2E : std::numeric_limits<float>::infinity();
      });
      rows[s].delta.each(
          [&](int row, float& x) { x = query + row < a.queries ? delta[job * a.queries + query + row] : 0.0f; });
    }
    const int64_t visible = a.causal && first + kRows < a.keys ? first + kRows : a.keys;
    for (int64_t key = 0; key < visible; key += kTile) {
      team.sync();
      copy_tile(team, k + (job * a.padded_keys + key) * D, D, kTile, D, tile_k, D + kGap);
      copy_tile(team, v + (job * a.padded_keys + key) * D, D, kTile, D, tile_v, D + kGap);
      copy_tile(team, kt + job * D * a.padded_keys + key, a.padded_keys, D, kTile, tile_kt, kTile + kGap);
      for (int i = team.rank(); i < kTile; i += team.size()) bias[i] = a.bias(job, key + i);
      team.sync();
      for (int s = 0; s < kShare; ++s) {
        Rows& own = rows[s];
        const int64_t query = first + 16 * warp_of(team, s);
        Sum<kTile / 8> p;
        Sum<kTile / 8> ds;
        p.clear();
        ds.clear();
        multiply(p, own.q, tile_k, D + kGap);
        multiply(ds, own.g, tile_v, D + kGap);
        const bool edge = a.causal && key + kTile > query;
        p.each(own.lse, [&](int row, int column, float& x, float lse) {
          const bool hidden = edge && key + column > query + row;
          x = hidden ? 0.0f : probability(x + bias[column] - lse);
        });
        if constexpr (drops) {
          ds.each([&](int row, int column, float& x) {
            if (query + row < a.queries && key + column < a.keys) x *= a.factor(job, query + row, key + column);
          });
        }
        ds.each(own.delta, [](int, int, float& x, float less) { x -= less; });
        ds.with(p, [](float& x, float probability) { x = probability > 0 ? x * probability : 0.0f; });
        multiply(own.dq, Left<kTile / 16>::of(ds), tile_kt, kTile + kGap);
      }
    }
    const StoredTokens::Head to = dQ.head(job / a.heads, job % a.heads);
    for (int s = 0; s < kShare; ++s) {
      const int64_t query = first + 16 * warp_of(team, s);
      rows[s].dq.each([&](int row, int column, float& x) {
        if (query + row < a.queries) to.put(query + row, column, scale * x);
      });
    }
  }
};

/// dK and dV; a block for 64 keys of a head, scores transposed:  dV = P^T dO,  dK = dS^T Q (Q times scale).
template <int D, bool drops>
struct KeyGradients {
  static constexpr int kRows = 16 * kBackwardWarps;
  static constexpr int kShare = kWarpShare<kBackwardWarps>;
  static constexpr size_t kShared =
      sizeof(bfloat16) * (2 * kTile * (D + kGap) + 2 * D * (kTile + kGap)) + sizeof(float) * 2 * kTile;

  Attention a;
  const bfloat16 *q, *g, *k, *v, *qt, *gt;  ///< q times scale log2 e
  const float *logsumexp, *delta;
  StoredTokens dK, dV;

  struct Rows {
    Left<D / 16> k, v;
    Sum<D / 8> dk, dv;
    RowValues bias;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = ceil_div(a.keys, kRows);
    const int64_t job = team.index() / tiles;
    const int64_t key = team.index() % tiles * kRows;
    auto* tile_q = team.template shared<bfloat16>();
    bfloat16* tile_g = tile_q + kTile * (D + kGap);
    bfloat16* tile_qt = tile_g + kTile * (D + kGap);
    bfloat16* tile_gt = tile_qt + D * (kTile + kGap);
    auto* lse = reinterpret_cast<float*>(tile_gt + D * (kTile + kGap));
    float* less = lse + kTile;
    Rows rows[kShare];
    for (int s = 0; s < kShare; ++s) {
      const int64_t own = key + 16 * warp_of(team, s);
      rows[s].k.load(k + (job * a.padded_keys + own) * D, D);
      rows[s].v.load(v + (job * a.padded_keys + own) * D, D);
      rows[s].dk.clear();
      rows[s].dv.clear();
      rows[s].bias.each([&](int row, float& x) { x = a.bias(job, own + row); });
    }
    const int64_t begin = a.causal ? key : 0;  // earlier queries see none of these keys
    for (int64_t query = begin; query < a.queries; query += kTile) {
      team.sync();
      copy_tile(team, q + (job * a.padded_queries + query) * D, D, kTile, D, tile_q, D + kGap);
      copy_tile(team, g + (job * a.padded_queries + query) * D, D, kTile, D, tile_g, D + kGap);
      copy_tile(team, qt + job * D * a.padded_queries + query, a.padded_queries, D, kTile, tile_qt, kTile + kGap);
      copy_tile(team, gt + job * D * a.padded_queries + query, a.padded_queries, D, kTile, tile_gt, kTile + kGap);
      for (int i = team.rank(); i < kTile; i += team.size()) {
        const bool there = query + i < a.queries;
        const float value = there ? logsumexp[job * a.queries + query + i] : -std::numeric_limits<float>::infinity();
        lse[i] =
            value > -std::numeric_limits<float>::infinity() ? value * kLog2E : std::numeric_limits<float>::infinity();
        less[i] = there ? delta[job * a.queries + query + i] : 0.0f;
      }
      team.sync();
      for (int s = 0; s < kShare; ++s) {
        Rows& own = rows[s];
        const int64_t first = key + 16 * warp_of(team, s);
        Sum<kTile / 8> p;
        Sum<kTile / 8> ds;
        p.clear();
        ds.clear();
        multiply(p, own.k, tile_q, D + kGap);
        multiply(ds, own.v, tile_g, D + kGap);
        p.each(own.bias, [&](int row, int column, float& x, float bias) {
          const bool hidden = a.causal && first + row > query + column;
          x = hidden ? 0.0f : probability(x + bias - lse[column]);
        });
        [[maybe_unused]] Sum<kTile / 8> kept;
        if constexpr (drops) {
          kept.each([&](int row, int column, float& x) {
            x = query + column < a.queries && first + row < a.keys ? a.factor(job, query + column, first + row) : 0.0f;
          });
          ds.with(kept, [](float& x, float by) { x *= by; });
        }
        ds.each([&](int, int column, float& x) { x -= less[column]; });
        ds.with(p, [](float& x, float probability) { x = probability > 0 ? x * probability : 0.0f; });
        if constexpr (drops) p.with(kept, [](float& x, float by) { x = by > 0 ? x : 0.0f; });
        multiply(own.dv, Left<kTile / 16>::of(p), tile_gt, kTile + kGap);
        multiply(own.dk, Left<kTile / 16>::of(ds), tile_qt, kTile + kGap);
      }
    }
    const StoredTokens::Head to_k = dK.head(job / a.heads, job % a.heads);
    const StoredTokens::Head to_v = dV.head(job / a.heads, job % a.heads);
    for (int s = 0; s < kShare; ++s) {
      const int64_t first = key + 16 * warp_of(team, s);
      rows[s].dk.each([&](int row, int column, float& x) {
        if (first + row < a.keys) to_k.put(first + row, column, kLn2 * x);  // Q had log2 e
      });
      rows[s].dv.each([&](int row, int column, float& x) {
        if (first + row < a.keys) to_v.put(first + row, column, drops ? a.drop.scale * x : x);
      });
    }
  }
};

/// body(integral constants: the head size, whether there is dropout)
template <class Body>
void with_case(int64_t dim, bool drops, const Body& body) {
  using std::bool_constant;
  using std::integral_constant;
  if (dim == 32) {
    drops ? body(integral_constant<int, 32>{}, bool_constant<true>{})
          : body(integral_constant<int, 32>{}, bool_constant<false>{});
  } else {
    drops ? body(integral_constant<int, 64>{}, bool_constant<true>{})
          : body(integral_constant<int, 64>{}, bool_constant<false>{});
  }
}

}  // namespace

bool attends_in_bf16(const Tensor& Q, const Tensor& V) {
  const bool fits = Q.size(3) == V.size(3) && (Q.size(3) == 32 || Q.size(3) == 64);
  const bool may = Q.dtype() == DType::bf16 || (Q.dtype() == DType::f32 && precision() == Precision::bf16);
  return may && fits && platform::has_bf16();
}

void softmax_attention_bf16(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                            const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  const Attention a(Q, K, key_mask, options);
  const Packed q(Q, static_cast<float>(options.scale) * kLog2E, false);
  const Packed k(K, 1, false, key_mask);
  const Packed vt(V, 1, true, key_mask);
  with_case(Q.size(3), options.dropout.active(),
            [&]<int D, bool drops>(std::integral_constant<int, D>, std::bool_constant<drops>) {
              using Kernel = Forward<D, drops>;
              launch_blocks<32 * kForwardWarps>(
                  Q.size(0) * Q.size(1) * ceil_div(a.queries, Kernel::kRows), Kernel::kShared,
                  Kernel{a, q.data(), k.data(), vt.data(), StoredTokens(O), logsumexp.data<float>()});
            });
}

void softmax_attention_backward_bf16(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                     const Tensor& key_mask, const Tensor& logsumexp, const Tensor& delta,
                                     const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  const Attention a(Q, K, key_mask, options);
  const auto scale = static_cast<float>(options.scale);
  const int64_t jobs = Q.size(0) * Q.size(1);
  const Packed q(Q, scale * kLog2E, false);
  const Packed g(dO, 1, false);
  const Packed k(K, 1, false, key_mask);
  const Packed v(V, 1, false, key_mask);
  with_case(Q.size(3), options.dropout.active(),
            [&]<int D, bool drops>(std::integral_constant<int, D>, std::bool_constant<drops>) {
              {
                using Kernel = QueryGradients<D, drops>;
                const Packed kt(K, 1, true, key_mask);
                launch_blocks<32 * kBackwardWarps>(
                    jobs * ceil_div(a.queries, Kernel::kRows), Kernel::kShared,
                    Kernel{a, scale, q.data(), g.data(), k.data(), v.data(), kt.data(), logsumexp.data<float>(),
                           delta.data<float>(), StoredTokens(grads.dQ)});
              }
              using Kernel = KeyGradients<D, drops>;
              const Packed qt(Q, scale * kLog2E, true);
              const Packed gt(dO, 1, true);
              launch_blocks<32 * kBackwardWarps>(
                  jobs * ceil_div(a.keys, Kernel::kRows), Kernel::kShared,
                  Kernel{a, q.data(), g.data(), k.data(), v.data(), qt.data(), gt.data(), logsumexp.data<float>(),
                         delta.data<float>(), StoredTokens(grads.dK), StoredTokens(grads.dV)});
            });
}

}  // namespace bochner::cuda
