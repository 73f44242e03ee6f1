// The backward pass of patches.h.
#pragma once

#include "engine/cuda/attention/softmax/patches.h"

namespace bochner::cuda::softmax_patches {

/// dV = P^T dO and dK = scale dS^T Q of 64 keys, from `queries` queries starting at `first_query`, added to the
/// contribution of earlier queries; and scale dS^T of these queries. The first half of a block's threads computes P, dV
/// and Q K^T, the second half dS, dK and dO V^T.
template <int D, bool drops>
struct Gradients {
  static constexpr int kResident = 2;
  static constexpr size_t kShared =
      sizeof(float) * (4 * kTile * D + 2 * kTile * kTile + 2 * kTile) + (drops ? kTile * sizeof(uint64_t) : 0);
  static_assert(kThreads == 128, "a warp has 32 rows, and each half of the threads 64");

  Attention a;
  Tokens<const float> dO;
  const float *logsumexp, *delta;
  Tokens<float> dK, dV;
  int64_t first_job;
  int first_query, last_query;
  float* slab;          ///< (jobs, keys, queries): scale dS^T, both lengths padded to tiles
  int64_t slab_stride;  ///< of a key

  using Sums = float[kPatch][kPatch];

  /// A block's data for its keys and for a tile of queries.
  struct Tiles {
    float *k, *v, *q, *g, *p, *ds, *lse, *less;
    uint64_t *kept, real;
    int key, query;
  };

  /// Stores a thread's P, computed from Q K^T; negative if dropped.
  BOCHNER_DEVICE void put_weights(Sums& score, const Tiles& at, PatchPlace place) const {
    const float scale = a.scale * kLog2E;
    float less[kPatch];
#pragma unroll
    for (int j = 0; j < kPatch; ++j) less[j] = at.lse[place.column + 8 * j] * kLog2E;
    each(score, [&](int, int j, float& x) {
      // Scores are rounded, so a difference of huge ones could exceed 0.
      const float below = x * scale - less[j];
      x = fast_exp2(below > 0 ? 0.0f : below);
    });
    const bool late = a.causal && at.key + kTile - 1 > at.query;
    if (~at.real != 0 || at.query + kTile > a.queries || late) {
      const uint64_t real = at.real >> place.row;
      const int left = static_cast<int>(a.queries) - at.query - place.column;
      const int ahead = late ? at.key + place.row - at.query - place.column : -2 * kTile;
      each(score, [&](int i, int j, float& x) {
        const bool seen = (real >> 4 * i & 1) != 0 && 8 * j < left && ahead + 4 * i <= 8 * j && less[j] != kNothing;
        if (!seen) x = 0;
      });
    }
    if constexpr (drops) {
      uint64_t keeps[kPatch];
#pragma unroll
      for (int j = 0; j < kPatch; ++j) keeps[j] = at.kept[place.column + 8 * j] >> place.row;
      each(score, [&](int i, int j, float& x) { x = (keeps[j] >> 4 * i & 1) != 0 ? x : -x; });
    }
    each(score, [&](int i, int j, float x) { at.p[patch_place(place, i, j)] = x; });
  }
  /// Stores a thread's dS, computed from dP, and P with dropout's factor in place of the signs.
  BOCHNER_DEVICE void put_changes(Sums& dP, const Tiles& at, PatchPlace place, float* to) const {
    float less[kPatch];
#pragma unroll
    for (int j = 0; j < kPatch; ++j) less[j] = at.less[place.column + 8 * j];
    float* row = to + place.row * slab_stride + place.column;
    each(dP, [&](int i, int j, float change) {
      float& p = at.p[patch_place(place, i, j)];
      float weight = p;
      if constexpr (drops) {
        const bool dropped = weight < 0;
        change = dropped ? 0.0f : a.drop_scale * change;
        p = dropped ? 0.0f : a.drop_scale * weight;
        weight = dropped ? -weight : weight;
      }
      change = weight == 0 ? 0.0f : weight * (change - less[j]);
      at.ds[patch_place(place, i, j)] = change;
      row[8 * j] = a.scale * change;
      if (j == kPatch - 1) row += 4 * slab_stride;
    });
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int tiles = static_cast<int>(ceil_div(a.keys, kTile));
    const Attention::Job job = a.job(first_job + team.index() / tiles);
    Tiles at{};
    at.key = static_cast<int>(team.index() % tiles) * kTile;
    at.real = job.keys.of_tile(at.key);
    at.k = team.template shared<float>();
    at.v = at.k + kTile * D;
    at.q = at.v + kTile * D;
    at.g = at.q + kTile * D;
    at.p = at.g + kTile * D;
    at.ds = at.p + kTile * kTile;
    at.lse = at.ds + kTile * kTile;
    at.less = at.lse + kTile;
    at.kept = reinterpret_cast<uint64_t*>(at.less + kTile);
    float* const to = slab + team.index() * kTile * slab_stride;  // tiles of keys are those of the slab, job after job
    const auto is_real = [&](int row) { return (at.real >> row & 1) != 0; };
    begin_copy_tile<kThreads, kTile, D>(team, a.K.head(job.b, job.h) + at.key * a.K.stride, a.K.stride, a.dim,
                                        a.by_four, at.k, is_real);
    begin_copy_tile<kThreads, kTile, D>(team, a.V.head(job.b, job.h) + at.key * a.V.stride, a.V.stride, a.value_dim,
                                        a.by_four, at.v, is_real);
    float sum[kShare][kPatch][D / 8];
    for (auto& of_thread : sum) each(of_thread, [](int, int, float& x) { x = 0; });
    const bool skips = a.causal && at.key > first_query;  // earlier queries see none of these keys
    const int begin = skips ? at.key : first_query;
    const int skipped = (begin < last_query ? begin : last_query) - first_query;
    for (int row = 0; row < kTile; ++row) {
      for (int i = team.rank(); i < skipped; i += team.size()) to[row * slab_stride + i] = 0;
    }
    for (at.query = begin; at.query < last_query; at.query += kTile) {
      const auto there = [&](int row) { return at.query + row < a.queries; };
      const int count = static_cast<int>(a.queries - at.query < kTile ? a.queries - at.query : kTile);
      begin_copy_tile<kThreads, kTile, D>(team, a.Q.head(job.b, job.h) + at.query * a.Q.stride, a.Q.stride, a.dim,
                                          a.by_four, at.q, there);
      begin_copy_tile<kThreads, kTile, D>(team, dO.head(job.b, job.h) + at.query * dO.stride, dO.stride, a.value_dim,
                                          a.by_four, at.g, there);
      begin_copy_floats<kThreads, kTile>(team, logsumexp + job.index * a.queries + at.query, count, at.lse);
      begin_copy_floats<kThreads, kTile>(team, delta + job.index * a.queries + at.query, count, at.less);
      if constexpr (drops) {
        for (int row = team.rank(); row < kTile; row += team.size()) {
          at.kept[row] = a.kept_keys(job, at.query + row, at.key);
        }
      }
      wait_for_copies();
      team.sync();
      Sums score[kShare];
      for (int s = 0; s < kShare; ++s) {
        const int half = thread_of(team, s) / 64;
        const PatchPlace place(thread_of(team, s) % 64);
        each(score[s], [](int, int, float& x) { x = 0; });
        multiply_rows<D>(score[s], half == 0 ? at.k : at.v, half == 0 ? at.q : at.g, place);
        if (half == 0) put_weights(score[s], at, place);
      }
      team.sync();
      for (int s = 0; s < kShare; ++s) {
        if (thread_of(team, s) < 64) continue;
        put_changes(score[s], at, PatchPlace(thread_of(team, s) % 64), to + (at.query - first_query));
      }
      team.sync();
      for (int s = 0; s < kShare; ++s) {
        const int half = thread_of(team, s) / 64;
        multiply_columns<kTile, D>(sum[s], half == 0 ? at.p : at.ds, half == 0 ? at.g : at.q,
                                   PatchPlace(thread_of(team, s) % 64));
      }
      team.sync();  // all have read the tiles
    }
    wait_for_copies();
    for (int s = 0; s < kShare; ++s) {
      const int half = thread_of(team, s) / 64;
      const PatchPlace place(thread_of(team, s) % 64);
      const Tokens<float>& gradient = half == 0 ? dV : dK;
      const float factor = half == 0 ? 1.0f : a.scale;
      const int columns = half == 0 ? a.value_dim : a.dim;
#pragma unroll
      for (int i = 0; i < kPatch; ++i) {
        const int key = at.key + place.row + 4 * i;
        if (key >= a.keys) continue;
        float* const row = gradient.head(job.b, job.h) + key * gradient.stride;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          const int column = patch_column(place, j);
          if (column < columns) row[column] = (first_query > 0 ? row[column] : 0.0f) + factor * sum[s][i][j];
        }
      }
    }
  }
};

}  // namespace bochner::cuda::softmax_patches
