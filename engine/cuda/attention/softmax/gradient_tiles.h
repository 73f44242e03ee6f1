// The gradients of softmax attention on tensor cores: one pass over the keys for dQ, one over the queries for dK and
// dV. Each pass works on 32 columns of scores at a time, since S, dP and the gradients are all in registers.
#pragma once

#include "engine/cuda/attention/softmax/tiles.h"

namespace bochner::cuda::softmax_tiles {

/// What backward needs in addition.
struct Gradients {
  Attention a;
  Tokens<const bfloat16> g;  ///< dO
  /// (batch, heads, queries): log2 e times lse, infinite if a query sees no key, so that P is 0; and dO . O.
  const float *lse, *less;

  /// P of a score, bounded by 1 since scores are rounded.
  BOCHNER_DEVICE float probability(float score, float of_query) const {
    const float below = math::fma(score, a.scale, -of_query);
    return fast_exp2(below > 0 ? 0.0f : below);  // NaN is kept
  }
};

/// Computes lse and less of Gradients, with dO rounded to bf16, so that rows of dS sum to 0 up to rounding. One thread
/// per query.
struct Statistics {
  Tokens<const bfloat16> g;
  StoredTokens O;
  int64_t heads, queries;
  int dim;
  bool by_eight;  ///< whether O is bf16 and its rows begin at multiples of 16 bytes
  const float* logsumexp;
  float *lse, *less;

  BOCHNER_DEVICE static float number(const Eight& of, int i) {
    return math::bits_as<float>(static_cast<uint32_t>(of.at[i]) << 16);
  }
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t b = i / queries / heads;
    const int64_t h = i / queries % heads;
    const bfloat16* const from = g.head(b, h) + i % queries * g.stride;
    const StoredTokens::Head o = O.head(b, h);
    const auto* const stored = static_cast<const bfloat16*>(o.data) + o.begin + i % queries * o.stride;
    float sum = 0;
    for (int j = 0; j < dim; j += 8) {
      const Eight left = *reinterpret_cast<const Eight*>(from + j);
      if (by_eight) {
        const Eight right = *reinterpret_cast<const Eight*>(stored + j);
        for (int l = 0; l < 8; ++l) sum += number(left, l) * number(right, l);
      } else {
        for (int l = 0; l < 8; ++l) sum += number(left, l) * o.get(i % queries, j + l);
      }
    }
    less[i] = sum;
    lse[i] = logsumexp[i] == kNothing ? -kNothing : logsumexp[i] * kLog2E;
  }
};

/// dQ; one block per 128 queries of a head:  P = 2^(S - lse),  dS = P (dO V^T - delta),  dQ = factor dS K.
template <int D, bool drops>
struct QueryGradients {
  using Keys = KeyTiles<D>;
  static constexpr size_t kShared = Keys::kBytes;
  static constexpr int kResident = D == 32 ? 3 : 2;

  Gradients of;
  StoredTokens dQ;
  float factor;

  struct Rows {
    Left<D / 16> q[kStrips], g[kStrips];
    Sum<D / 8> dq[kStrips];
    RowValues lse[kStrips], less[kStrips];
  };

  BOCHNER_DEVICE void add_keys(Rows& own, const typename Keys::Tile& tile, int from, const Job& job, int query,
                               int key) const {
    [[maybe_unused]] Words kept;
    if constexpr (drops) kept = Words::of([&](int row) { return of.a.kept(job, query + row, key); });
    const bfloat16* const k = tile.k + from * Keys::kStride;
    Sum<kColumns / 8> p[kStrips];
    Sum<kColumns / 8> ds[kStrips];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      p[s].clear();
      ds[s].clear();
    }
    multiply_rows(p, own.q, k, Keys::kStride);
    hide(p, tile.real >> from, of.a.causal, query, key);
    multiply_rows(ds, own.g, tile.v + from * Keys::kStride, Keys::kStride);
    if constexpr (drops) {
      const float scale = of.a.drop_scale;
      each_with_bit(ds, kept, [scale](float& x, bool is_kept) { x = is_kept ? scale * x : 0.0f; });
    }
    Left<kColumns / 16> left[kStrips];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      p[s].each(own.lse[s], [&](int, int, float& x, float lse) { x = of.probability(x, lse); });
      ds[s].each(own.less[s], [](int, int, float& x, float less) { x -= less; });
      ds[s].with(p[s], [](float& x, float probability) { x *= probability; });
      left[s] = Left<kColumns / 16>::of(ds[s]);
    }
    multiply_columns(own.dq, left, k, Keys::kStride);
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Attention& a = of.a;
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
        rows[w].g[s] = load_left<D / 16>(job.of(of.g), of.g.stride, query, a.queries);
        rows[w].dq[s].clear();
        const auto load = [&](RowValues& to, const float* from) {
          to.each([&](int row, float& x) { x = query + row < a.queries ? from[query + row] : 0.0f; });
        };
        load(rows[w].lse[s], of.lse + job.index * a.queries);
        load(rows[w].less[s], of.less + job.index * a.queries);
      }
    }
    keys.walk(team, a.visible(first), [&](const typename Keys::Tile& tile, int key) {
      for (int w = 0; w < kShare; ++w) {
        const int query = first + kWarpRows * warp_of(team, w);
        for (int from = 0; from < kTile; from += kColumns) {
          if (query >= a.queries || (a.causal && key + from >= query + kWarpRows)) continue;
          add_keys(rows[w], tile, from, job, query, key + from);
        }
      }
    });
    const StoredTokens::Head to = job.of(dQ);
    for (int w = 0; w < kShare; ++w) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        const int query = first + kWarpRows * warp_of(team, w) + 16 * s;
        put_rows(to, query, a.queries, rows[w].dq[s], RowValues::filled(factor));
      }
    }
  }
};

/// dK and dV; one block per 128 keys of a head, scores transposed:  dV = P^T dO,  dK = factor dS^T Q.
template <int D, bool drops>
struct KeyGradients {
  static constexpr int kStride = D + kGap;
  static constexpr int kElements = kTile * kStride;
  static constexpr size_t kShared =
      sizeof(bfloat16) * (2 * kRows * kStride + 4 * kElements) + sizeof(float) * 4 * kTile;
  static constexpr int kResident = D == 32 ? 3 : 2;

  Gradients of;
  StoredTokens dK, dV;
  float factor;  ///< of dK

  struct Rows {
    Sum<D / 8> dk[kStrips], dv[kStrips];
  };
  /// One of two tiles of 64 queries and their dO.
  struct Tile {
    bfloat16 *q, *g;
    float *lse, *less;
    BOCHNER_DEVICE Tile(bfloat16* memory, int query) {
      const int which = query / kTile % 2;
      q = memory + which * 2 * kElements;
      g = q + kElements;
      lse = reinterpret_cast<float*>(memory + 4 * kElements) + which * 2 * kTile;
      less = lse + kTile;
    }
  };

  template <class Team>
  BOCHNER_DEVICE void begin_load(const Team& team, const Job& job, int query, const Tile& to) const {
    const Attention& a = of.a;
    const auto there = [&](int row) { return query + row < a.queries; };
    begin_copy_rows<kThreads, kTile, D>(team, job.of(a.q) + query * a.q.stride, a.q.stride, to.q, kStride, there);
    begin_copy_rows<kThreads, kTile, D>(team, job.of(of.g) + query * of.g.stride, of.g.stride, to.g, kStride, there);
    const int64_t place = job.index * a.queries + query;
    begin_copy_floats<kThreads, kTile>(team, of.lse + place, a.queries - query, to.lse);
    begin_copy_floats<kThreads, kTile>(team, of.less + place, a.queries - query, to.less);
  }

  /// Adds the 32 queries from row `from` of the tile on; k and v are the warp's 32 keys and values.
  BOCHNER_DEVICE void add_queries(Rows& own, const bfloat16* k, const bfloat16* v, const Tile& tile, int from,
                                  const Job& job, int query, int key) const {
    [[maybe_unused]] Words kept;
    if constexpr (drops) kept = Words::of([&](int column) { return of.a.kept(job, query + column, key); });
    const bfloat16* const q = tile.q + from * kStride;
    const bfloat16* const g = tile.g + from * kStride;
    const float* const lse = tile.lse + from;
    const float* const less = tile.less + from;
    Sum<kColumns / 8> p[kStrips];
    Sum<kColumns / 8> ds[kStrips];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      p[s].clear();
      ds[s].clear();
    }
    multiply_rows<D / 16>(p, k, q, kStride);
    if (of.a.causal && key + kWarpRows > query) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        const int first = key - query + 16 * s;
        p[s].each([&](int row, int column, float& x) {
          if (first + row > column) x = kNothing;
        });
      }
    }
    multiply_rows<D / 16>(ds, v, g, kStride);
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      p[s].each([&](int, int column, float& x) { x = of.probability(x, lse[column]); });
    }
    if constexpr (drops) {
      const float scale = of.a.drop_scale;
      each_with_bit(p, ds, kept, [&](int column, float& probability, float& x, bool is_kept) {
        x = probability * ((is_kept ? scale * x : 0.0f) - less[column]);
        probability = is_kept ? probability : 0.0f;
      });
    } else {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        ds[s].each([&](int, int column, float& x) { x -= less[column]; });
        ds[s].with(p[s], [](float& x, float probability) { x *= probability; });
      }
    }
    Left<kColumns / 16> left_p[kStrips];
    Left<kColumns / 16> left_ds[kStrips];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      left_p[s] = Left<kColumns / 16>::of(p[s]);
      left_ds[s] = Left<kColumns / 16>::of(ds[s]);
    }
    multiply_columns(own.dv, left_p, g, kStride);
    multiply_columns(own.dk, left_ds, q, kStride);
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Attention& a = of.a;
    const int tiles = static_cast<int>(ceil_div(a.keys, kRows));
    const Job job = a.job(team.index() / tiles);
    const int key = static_cast<int>(team.index() % tiles) * kRows;
    auto* const k = team.template shared<bfloat16>();
    bfloat16* const v = k + kRows * kStride;
    bfloat16* const memory = v + kRows * kStride;
    const RealKeys keys = a.real_keys(job);
    const uint64_t low = keys.of_tile(key);
    const uint64_t high = key + kTile < a.keys ? keys.of_tile(key + kTile) : 0;
    const auto real = [&](int row) { return ((row < kTile ? low : high) >> row % kTile & 1) != 0; };
    begin_copy_rows<kThreads, kRows, D>(team, job.of(a.k) + key * a.k.stride, a.k.stride, k, kStride, real);
    begin_copy_rows<kThreads, kRows, D>(team, job.of(a.v) + key * a.v.stride, a.v.stride, v, kStride, real);
    Rows rows[kShare];
    for (int w = 0; w < kShare; ++w) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        rows[w].dk[s].clear();
        rows[w].dv[s].clear();
      }
    }
    // Earlier queries see none of these keys, and no query sees hidden ones.
    const int begin = (low | high) == 0 ? a.queries : a.causal ? key : 0;
    if (begin < a.queries) begin_load(team, job, begin, Tile(memory, begin));
    for (int query = begin; query < a.queries; query += kTile) {
      wait_for_copies();
      team.sync();  // all threads have this tile, and have finished reading the previous one
      if (query + kTile < a.queries) begin_load(team, job, query + kTile, Tile(memory, query + kTile));
      for (int w = 0; w < kShare; ++w) {
        const int own = kWarpRows * warp_of(team, w);
        for (int from = 0; from < kTile; from += kColumns) {
          if (key + own >= a.keys || (a.causal && key + own >= query + from + kColumns)) continue;
          add_queries(rows[w], k + own * kStride, v + own * kStride, Tile(memory, query), from, job, query + from,
                      key + own);
        }
      }
    }
    wait_for_copies();  // of K and V, if there was no query
    const StoredTokens::Head to_k = job.of(dK);
    const StoredTokens::Head to_v = job.of(dV);
    for (int w = 0; w < kShare; ++w) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        const int own = key + kWarpRows * warp_of(team, w) + 16 * s;
        RowValues of_key = RowValues::filled(factor);
        RowValues of_value = RowValues::filled(drops ? a.drop_scale : 1.0f);
        const auto hide = [&](int row, float& x) { x = real(own - key + row) ? x : 0.0f; };
        of_key.each(hide);
        of_value.each(hide);
        put_rows(to_k, own, a.keys, rows[w].dk[s], of_key);
        put_rows(to_v, own, a.keys, rows[w].dv[s], of_value);
      }
    }
  }
};

}  // namespace bochner::cuda::softmax_tiles
