// Streaming softmax attention on tensor cores: factors in bf16, everything else (sums, maxima, exponentials,
// statistics) in f32. A warp has 32 rows of queries (or, for dK and dV, of keys); its scores never leave its registers.
// Tiles of the other side go through shared memory; the next one is loaded while one is used.
#pragma once

#include <cmath>
#include <limits>

#include "engine/cuda/parts/kept_bits.h"
#include "engine/cuda/parts/packed.h"
#include "engine/cuda/parts/warp_strips.h"
#include "engine/ops/attention/softmax_attention.h"

namespace bochner::cuda::softmax_tiles {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = kWarpRows * kWarps;  // per block
constexpr int kShare = kWarpShare<kWarps>;
constexpr int kColumns = 32;  // columns of scores at a time
constexpr float kLn2 = 0.693147181f;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// to (batch, heads, length, 8 eights) = factor * x, rounded. One thread per eight numbers.
struct Round {
  StoredTokens x;
  int64_t heads, length;
  int eights;
  float factor;
  Eight* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / eights;
    const int64_t first = i % eights * 8;
    const int64_t job = row / length;
    const StoredTokens::Head from = x.head(job / heads, job % heads);
    Eight rounded;
    for (int l = 0; l < 8; ++l) {
      rounded.at[l] = bfloat16(factor * from.get(row % length, first + l)).bits;
    }
    to[i] = rounded;
  }
};

/// One bit per key of a tile: whether it is real.
struct RealKeys {
  const uint64_t* words;  ///< of an example; null: all keys are real
  int keys;
  BOCHNER_DEVICE uint64_t of_tile(int key) const {
    if (words != nullptr) return words[key / kTile];
    return keys - key < kTile ? (uint64_t{1} << (keys - key)) - 1 : ~uint64_t{0};
  }
};

/// These words for all examples. One thread per byte.
struct PackMask {
  KeyMask mask;
  int64_t keys, bytes;  ///< per example
  uint8_t* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    uint32_t real = 0;
    for (int bit = 0; bit < 8; ++bit) {
      const int64_t key = i % bytes * 8 + bit;
      if (key < keys && mask.real(i / bytes, key)) real |= 1U << bit;
    }
    to[i] = static_cast<uint8_t>(real);
  }
};

/// A head of an example.
struct Job {
  int64_t index, b, h;
  uint64_t half;  ///< dropout's half word for its first query and key
  template <class T>
  BOCHNER_DEVICE auto of(const T& tokens) const {
    return tokens.head(b, h);
  }
};

/// Common to all passes. Rows of q, k and v begin at multiples of 16 bytes.
struct Attention {
  int64_t heads;
  int queries, keys;
  float scale;  ///< of q . k in the scores, times log2 e; positive
  bool causal;
  KeptBits drop;
  float drop_scale;
  const uint64_t* real;  ///< (batch, tiles of keys), or null
  Tokens<const bfloat16> q, k, v;

  BOCHNER_DEVICE Job job(int64_t index) const {
    return {index, index / heads, index % heads, drop.active ? drop.half(index * queries * keys) : 0};
  }
  BOCHNER_DEVICE RealKeys real_keys(const Job& job) const {
    return {real == nullptr ? nullptr : real + job.b * ceil_div(keys, kTile), keys};
  }
  /// The first of a block's queries; under causal, blocks that see the most keys come first.
  BOCHNER_DEVICE int first_query(int tile, int tiles, int rows = kRows) const {
    return (causal ? tiles - 1 - tile : tile) * rows;
  }
  /// How many keys some of a block's queries see.
  BOCHNER_DEVICE int visible(int first, int rows = kRows) const {
    return causal && first + rows < keys ? first + rows : keys;
  }
  /// Which of the 32 keys from `key` on dropout keeps for a query; or the first `count` bits of these.
  template <int count = 32>
  BOCHNER_DEVICE uint32_t kept(const Job& job, int query, int key) const {
    return drop.some<count>(job.half + static_cast<uint64_t>(int64_t{query} * keys + key));
  }
};

/// Tiles of 64 keys and their values in shared memory, two at a time: one is used while one is loaded. Hidden keys are
/// 0.
template <int D>
struct KeyTiles {
  static constexpr int kStride = D + kGap;
  static constexpr int kElements = kTile * kStride;
  static constexpr size_t kBytes = 4 * sizeof(bfloat16) * kElements;

  const Attention& a;
  const RealKeys real_keys;
  const bfloat16 *keys, *values;
  bfloat16* memory;

  struct Tile {
    const bfloat16 *k, *v;
    uint64_t real;  ///< one bit per key
  };

  BOCHNER_DEVICE KeyTiles(const Attention& attention, const Job& job, bfloat16* shared)
      : a(attention), real_keys(a.real_keys(job)), keys(job.of(a.k)), values(job.of(a.v)), memory(shared) {}

  template <class Team>
  BOCHNER_DEVICE void begin_load(const Team& team, int key, uint64_t real, bfloat16* to) const {
    const bfloat16* const from_k = keys + key * a.k.stride;
    const bfloat16* const from_v = values + key * a.v.stride;
    const auto wanted = [&](int row) { return (real >> row & 1) != 0; };
    begin_copy_rows<kThreads, kTile, D>(team, from_k, a.k.stride, to, kStride, wanted);
    begin_copy_rows<kThreads, kTile, D>(team, from_v, a.v.stride, to + kElements, kStride, wanted);
  }

  /// f(tile, its first key) for all tiles before `visible` that have a real key, with the team in step.
  template <class Team, class F>
  BOCHNER_DEVICE void walk(const Team& team, int visible, const F& f) const {
    int key = -kTile;
    uint64_t real = 0;
    const auto go_on = [&] {
      do {
        key += kTile;
        real = key < visible ? real_keys.of_tile(key) : 0;
      } while (key < visible && real == 0);
    };
    go_on();
    if (key < visible) begin_load(team, key, real, memory);
    for (int which = 0; key < visible; which = 1 - which) {
      bfloat16* const used = memory + which * 2 * kElements;
      const Tile tile{used, used + kElements, real};
      const int first = key;
      go_on();
      wait_for_copies();
      team.sync();  // all threads have this tile, and have finished reading the previous one
      if (key < visible) begin_load(team, key, real, memory + (1 - which) * 2 * kElements);
      f(tile, first);
    }
  }
};

/// Scores of hidden keys, and of keys after a query, become -infinity. The scores are for queries `query` ... and keys
/// `key` ..., and the bits of `real` are those of these keys.
template <int R, int N>
BOCHNER_DEVICE void hide(Sum<N> (&score)[R], uint64_t real, bool causal, int query, int key) {
  constexpr uint64_t kAll = ~uint64_t{0} >> (64 - 8 * N);
  if ((real & kAll) != kAll) {
#pragma unroll
    for (int s = 0; s < R; ++s) {
      score[s].each([&](int, int column, float& x) {
        if ((real >> column & 1) == 0) x = kNothing;
      });
    }
  }
  if (causal && key + 8 * N > query) {
#pragma unroll
    for (int s = 0; s < R; ++s) {
      const int least = query - key + 16 * s;
      score[s].each([&](int row, int column, float& x) {
        if (column > least + row) x = kNothing;
      });
    }
  }
}

struct Maximum {
  BOCHNER_DEVICE float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// O and lse; one block per 128 queries of a head.
template <int D, bool drops>
struct Forward {
  using Keys = KeyTiles<D>;
  static constexpr size_t kShared = Keys::kBytes;
  static constexpr int kResident = D == 32 ? 3 : 2;
  /// P may be as large as 2^kSlack, since f32 and bf16 reach 2^127: a row's maximum stays that of its first tile until
  /// a score exceeds it by this.
  static constexpr float kSlack = 32;
  static constexpr float kLimit = 2147483648.0f;  ///< of a sum with no such score: 2^(kSlack - 1), as sums are rounded

  Attention a;
  StoredTokens O;
  float* logsumexp;

  struct Rows {
    Left<D / 16> q[kStrips];
    Sum<D / 8> o[kStrips];
    RowValues top[kStrips], sum[kStrips];
  };

  using Scores = Sum<kColumns / 8>[kStrips];

  /// Q K^T for the 32 keys from row `from` of the tile on.
  BOCHNER_DEVICE void make_scores(Scores& score, const Rows& own, const typename Keys::Tile& tile, int from) const {
#pragma unroll
    for (int s = 0; s < kStrips; ++s) score[s].clear();
    multiply_rows(score, own.q, tile.k + from * Keys::kStride, Keys::kStride);
  }
  /// Replaces this lane's scores by P, and computes its sums. Infinite or NaN where a row has no maximum yet.
  BOCHNER_DEVICE void exponentiate(Scores& score, const Rows& own, RowValues (&sum)[kStrips]) const {
    const float scale = a.scale;
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      const RowValues less = RowValues::of(own.top[s], own.top[s], [scale](float x, float) { return -scale * x; });
      score[s].each(less, [scale](int, int, float& x, float by) { x = fast_exp2(math::fma(x, scale, by)); });
      sum[s] = sums_of_lane(score[s]);
    }
  }
  /// The same from the start: masks hidden keys, and raises maxima that scores exceed too far.
  BOCHNER_DEVICE void weigh(Scores& score, Rows& own, RowValues (&sum)[kStrips], const typename Keys::Tile& tile,
                            int from, int query, int key) const {
    const float scale = a.scale;
    make_scores(score, own, tile, from);
    hide(score, tile.real >> from, a.causal, query, key + from);
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      const RowValues top = RowValues::of(own.top[s], score[s].rows(Maximum{}), [scale](float before, float now) {
        return scale * (now - before) > kSlack ? now : before;
      });
      const RowValues factor = RowValues::of(own.top[s], top, [scale](float before, float now) {
        return before == now ? 1.0f : fast_exp2(scale * (before - now));
      });
      own.o[s].each(factor, [](int, int, float& x, float by) { x *= by; });
      own.sum[s] = RowValues::of(own.sum[s], factor, [](float x, float by) { return x * by; });
      own.top[s] = top;
      const RowValues less =
          RowValues::of(top, top, [scale](float x, float) { return x == kNothing ? 0.0f : -scale * x; });
      score[s].each(less, [scale](int, int, float& x, float by) { x = fast_exp2(math::fma(x, scale, by)); });
      sum[s] = sums_of_lane(score[s]);
    }
  }
  BOCHNER_DEVICE void add(Rows& own, Scores& p, const RowValues (&sum)[kStrips], const typename Keys::Tile& tile,
                          int from, [[maybe_unused]] const Words& kept) const {
#pragma unroll
    for (int s = 0; s < kStrips; ++s) own.sum[s] = RowValues::of(own.sum[s], sum[s], Plus{});
    if constexpr (drops) each_with_bit(p, kept, [](float& x, bool is_kept) { x = is_kept ? x : 0.0f; });
    Left<kColumns / 16> left[kStrips];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) left[s] = Left<kColumns / 16>::of(p[s]);
    multiply_columns(own.o, left, tile.v + from * Keys::kStride, Keys::kStride);
  }
  BOCHNER_DEVICE Words kept(const Job& job, int query, int key) const {
    if constexpr (!drops) return {};
    return Words::of([&](int row) { return a.kept(job, query + row, key); });
  }

  BOCHNER_DEVICE void add_tile(Rows& own, const typename Keys::Tile& tile, const Job& job, int query, int key) const {
    RowValues sum[kStrips];
    Scores p;
    if (tile.real != ~uint64_t{0} || (a.causal && key + kTile > query)) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
      for (int from = 0; from < kTile; from += kColumns) {
        weigh(p, own, sum, tile, from, query, key);
        add(own, p, sum, tile, from, kept(job, query, key + from));
      }
      return;
    }
    // Products of one half run alongside exponentials of the other. New maxima are looked for only where sums are
    // large.
    static_assert(kTile == 2 * kColumns);
    const Words keeps = kept(job, query, key);
    const Words next_keeps = kept(job, query, key + kColumns);
    RowValues next_sum[kStrips];
    Scores next;
    make_scores(p, own, tile, 0);
    make_scores(next, own, tile, kColumns);
    exponentiate(p, own, sum);
    if (any_above(sum, kLimit)) weigh(p, own, sum, tile, 0, query, key);
    exponentiate(next, own, next_sum);
    add(own, p, sum, tile, 0, keeps);
    if (any_above(next_sum, kLimit)) weigh(next, own, next_sum, tile, kColumns, query, key);
    add(own, next, next_sum, tile, kColumns, next_keeps);
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int tiles = static_cast<int>(ceil_div(a.queries, kRows));
    const Job job = a.job(team.index() / tiles);
    const int first = a.first_query(static_cast<int>(team.index() % tiles), tiles);
    const Keys keys(a, job, team.template shared<bfloat16>());
    Rows rows[kShare];
    for (int w = 0; w < kShare; ++w) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        const int query = first + kWarpRows * warp_of(team, w) + 16 * s;
        rows[w].q[s] = load_left<D / 16>(job.of(a.q), a.q.stride, query, a.queries);
        rows[w].o[s].clear();
        rows[w].top[s] = RowValues::filled(kNothing);
        rows[w].sum[s] = RowValues::filled(0);
      }
    }
    keys.walk(team, a.visible(first), [&](const typename Keys::Tile& tile, int key) {
      for (int w = 0; w < kShare; ++w) {
        const int query = first + kWarpRows * warp_of(team, w);
        if (query >= a.queries || (a.causal && key >= query + kWarpRows)) continue;
        add_tile(rows[w], tile, job, query, key);
      }
    });
    // Dropout's scale is applied outside P, so that kept elements are rounded as without dropout.
    const float scale = drops ? a.drop_scale : 1.0f;
    const StoredTokens::Head to = job.of(O);
    for (int w = 0; w < kShare; ++w) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        const int query = first + kWarpRows * warp_of(team, w) + 16 * s;
        const RowValues sum = total_of_lanes(rows[w].sum[s]);
        put_rows(to, query, a.queries, rows[w].o[s],
                 RowValues::of(sum, sum, [scale](float x, float) { return x == 0 ? 0.0f : scale / x; }));
        RowValues lse = RowValues::of(rows[w].top[s], sum, [&](float top, float of_row) {
          return of_row == 0 ? kNothing : top * a.scale * kLn2 + math::log(of_row);
        });
        lse.each([&](int row, float& x) {
          if (RowValues::first() && query + row < a.queries) logsumexp[job.index * a.queries + query + row] = x;
        });
      }
    }
  }
};

}  // namespace bochner::cuda::softmax_tiles
