// Streaming softmax attention in f32, without tensor cores, for heads of at most 64: scores and sums stay in registers,
// a patch of 8 x 8 for each thread (parts/patch.h), and only P goes through shared memory.
//
// Forward: a block has 128 queries and walks the keys in tiles of 64. Backward: a block has 64 keys and walks the
// queries in tiles of 64. Half of its threads compute P and sum dV, the others compute dP and sum dK. dS is written,
// for one slab of queries at a time, and dQ = dS K is a plain product: recomputing dS for it would take two more
// products.
#pragma once

#include "engine/cuda/attention/softmax/problem.h"
#include "engine/cuda/attention/softmax/tiles.h"
#include "engine/cuda/parts/patch.h"

namespace bochner::cuda::softmax_patches {

using softmax_tiles::kLn2;
using softmax_tiles::kNothing;
using softmax_tiles::Maximum;

constexpr int kThreads = 128;
constexpr int kShare = kThreadShare<kThreads>;
constexpr int kQueries = 128;  // per block, forward

/// Common to both passes.
struct Attention : AttentionProblem<float> {
  KeptBits kept;
  float drop_scale;
  const uint64_t* real;  ///< one bit per key, in words of kTile keys; null: all keys are real
  bool by_four;          ///< rows begin at multiples of 16 bytes and the number of columns is a multiple of four

  struct Job {
    int64_t index, b, h;
    softmax_tiles::RealKeys keys;
  };
  BOCHNER_DEVICE Job job(int64_t index) const {
    const int64_t b = index / heads;
    const int count = static_cast<int>(keys);
    return {index, b, index % heads, {real == nullptr ? nullptr : real + b * ceil_div(keys, kTile), count}};
  }
  /// One bit for each of the 64 keys from `key` on: whether dropout keeps it.
  BOCHNER_DEVICE uint64_t kept_keys(const Job& job, int64_t query, int64_t key) const {
    const uint64_t half = kept.half((job.index * queries + query) * keys + key);
    return kept(half) | uint64_t{kept(half + 32)} << 32;
  }
};

/// O and logsumexp.
template <int D, bool drops>
struct Forward {
  static constexpr int kResident = 2;
  static constexpr size_t kShared =
      sizeof(float) * (kQueries * D + kQueries * kTile + 2 * kTile * D) + (drops ? kQueries * sizeof(uint64_t) : 0);

  Attention a;
  Tokens<float> O;
  float* logsumexp;

  /// The sums of a thread's rows; until the end, `sum` covers only the thread's own columns.
  struct Rows {
    float o[kShare][kPatch][D / 8], top[kShare][kPatch], sum[kShare][kPatch];
  };
  using Scores = float[kShare][kPatch][kPatch];

  /// Replaces Q K^T by P, with new maxima.
  template <class Team>
  BOCHNER_DEVICE void weigh(const Team& team, Scores& score, Rows& rows, uint64_t real, int query, int key) const {
    const float scale = a.scale * kLog2E;
    const bool late = a.causal && key + kTile - 1 > query;  // whether some key may be later than some query
    float top[kShare][kPatch];
    for (int s = 0; s < kShare; ++s) {
      each(score[s], [&](int, int, float& x) { x *= scale; });
      if (~real != 0 || late) {
        const PatchPlace place(thread_of(team, s));
        const uint64_t of_thread = real >> place.column;
        const int ahead = late ? key + place.column - query - place.row : -2 * kQueries;
        each(score[s], [&](int i, int j, float& x) {
          if ((of_thread >> 8 * j & 1) == 0 || ahead + 8 * j > 4 * i) x = kNothing;
        });
      }
#pragma unroll
      for (int i = 0; i < kPatch; ++i) top[s][i] = rows.top[s][i];
      each(score[s], [&](int i, int, float& x) { top[s][i] = fmaxf(top[s][i], x); });
    }
    reduce_rows<kThreads>(top, Maximum{});
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int i = 0; i < kPatch; ++i) {
        const float now = top[s][i];
        const float factor = rows.top[s][i] == now ? 1.0f : fast_exp2(rows.top[s][i] - now);
        const float less = now == kNothing ? 0.0f : now;
        float sum = 0;
#pragma unroll
        for (int j = 0; j < kPatch; ++j) {
          score[s][i][j] = fast_exp2(score[s][i][j] - less);
          sum += score[s][i][j];
        }
        rows.sum[s][i] = rows.sum[s][i] * factor + sum;
        rows.top[s][i] = now;
#pragma unroll
        for (float& x : rows.o[s][i]) x *= factor;
      }
    }
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int tiles = static_cast<int>(ceil_div(a.queries, kQueries));
    const Attention::Job job = a.job(team.index() / tiles);
    const int tile = static_cast<int>(team.index() % tiles);
    const int first = (a.causal ? tiles - 1 - tile : tile) * kQueries;  // blocks that see the most keys come first
    float* const q = team.template shared<float>();
    float* const p = q + kQueries * D;
    float* const k = p + kQueries * kTile;
    float* const v = k + kTile * D;
    auto* const kept = reinterpret_cast<uint64_t*>(v + kTile * D);
    const float* const keys = a.K.head(job.b, job.h);
    const float* const values = a.V.head(job.b, job.h);
    const auto copy_keys = [&](const Tokens<const float>& x, const float* from, int key, int columns, float* to) {
      const uint64_t real = job.keys.of_tile(key);
      begin_copy_tile<kThreads, kTile, D>(team, from + key * x.stride, x.stride, columns, a.by_four, to,
                                          [&](int row) { return (real >> row & 1) != 0; });
    };
    const auto draw = [&](int key) {
      if constexpr (drops) {
        for (int row = team.rank(); row < kQueries; row += team.size()) kept[row] = a.kept_keys(job, first + row, key);
      }
    };
    Rows rows;
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int i = 0; i < kPatch; ++i) {
        rows.top[s][i] = kNothing;
        rows.sum[s][i] = 0;
      }
      each(rows.o[s], [](int, int, float& x) { x = 0; });
    }
    const int visible = static_cast<int>(a.visible_before(first + kQueries));
    begin_copy_tile<kThreads, kQueries, D>(team, a.Q.head(job.b, job.h) + first * a.Q.stride, a.Q.stride, a.dim,
                                           a.by_four, q, [&](int row) { return first + row < a.queries; });
    if (visible > 0) copy_keys(a.K, keys, 0, a.dim, k);
    draw(0);
    for (int key = 0; key < visible; key += kTile) {
      Scores score;
      wait_for_copies();
      team.sync();  // the keys are loaded, and all threads have read the last values
      copy_keys(a.V, values, key, a.value_dim, v);
      for (int s = 0; s < kShare; ++s) {
        each(score[s], [](int, int, float& x) { x = 0; });
        multiply_rows<D>(score[s], q, k, PatchPlace(thread_of(team, s)));
      }
      weigh(team, score, rows, job.keys.of_tile(key), first, key);
      for (int s = 0; s < kShare; ++s) {
        const PatchPlace place(thread_of(team, s));
        uint64_t keeps = 0;
        each(score[s], [&](int i, int j, float x) {
          if (drops && j == 0) keeps = kept[place.row + 4 * i] >> place.column;
          p[patch_place(place, i, j)] = drops && (keeps >> 8 * j & 1) == 0 ? 0.0f : x;
        });
      }
      wait_for_copies();
      team.sync();  // the values and P are ready, and all threads have read the keys
      if (key + kTile < visible) {
        copy_keys(a.K, keys, key + kTile, a.dim, k);
        draw(key + kTile);
      }
      for (int s = 0; s < kShare; ++s) multiply_columns<kTile, D>(rows.o[s], p, v, PatchPlace(thread_of(team, s)));
    }
    wait_for_copies();  // if the block sees no key
    reduce_rows<kThreads>(rows.sum, Plus{});
    for (int s = 0; s < kShare; ++s) {
      const PatchPlace place(thread_of(team, s));
#pragma unroll
      for (int i = 0; i < kPatch; ++i) {
        const int query = first + place.row + 4 * i;
        if (query >= a.queries) continue;
        const float sum = rows.sum[s][i];
        const float share = sum == 0 ? 0.0f : (drops ? a.drop_scale : 1.0f) / sum;
        float* const to = O.head(job.b, job.h) + query * O.stride;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          const int column = patch_column(place, j);
          if (column < a.value_dim) to[column] = share * rows.o[s][i][j];
        }
        if (place.column == 0) {
          logsumexp[job.index * a.queries + query] = sum == 0 ? kNothing : rows.top[s][i] * kLn2 + math::log(sum);
        }
      }
    }
  }
};

}  // namespace bochner::cuda::softmax_patches
