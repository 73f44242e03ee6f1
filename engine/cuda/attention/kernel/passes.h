// The passes before and after the tiles of kernel attention in bf16: packing, shifts, and sums of parts.
#pragma once

#include "engine/cuda/attention/kernel/tiles.h"
#include "engine/cuda/parts/packed.h"

namespace bochner::cuda {

/// Omega, or 1 if undefined, in whole tiles; one thread per element.
struct PackOmega {
  int64_t count, padded, dim;
  const float* Omega;
  bfloat16* rows;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % dim;
    const int64_t row = i / dim % padded;
    const int64_t head = i / dim / padded;
    const int64_t from = row % count;
    const float value =
        Omega == nullptr ? static_cast<float>(from == column) : Omega[(head * count + from) * dim + column];
    rows[i] = bfloat16(value);
  }
};

/// The largest exponent of real keys, from those of `blocks` blocks; a team per job.
struct KeyShift {
  int64_t blocks;
  const float* largest;  ///< (jobs, blocks)
  int64_t stride;        ///< between the shifts of two jobs
  float* shift;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    float most = no_exponent<float>();
    for (int64_t i = team.rank(); i < blocks; i += team.size()) {
      const float next = largest[team.index() * blocks + i];
      most = next > most ? next : most;
    }
    most = team.max(most);
    if (team.rank() == 0) shift[team.index() * stride] = most;
  }
};

/// S' from its parts, (splits, jobs, F, D + 1), plus the contributions of eps and the constant, and packed: rows in
/// bf16 and z, without writing rows beyond the last frequency. Jobs of parts are `from_stride` apart. One block per 16
/// features.
template <int D>
struct FinishSums {
  static constexpr int kThreads = 288;  // one per number
  static constexpr int kFeatures = 256 / D;
  int64_t features, frequencies, padded, jobs, splits;
  int parts_each;  ///< features per frequency
  int64_t from_stride, stride;
  float eps, constant;
  const float *parts, *totals;  ///< totals (splits, jobs, D + 1), null if both are 0
  float* sums;                  ///< jobs `stride` apart, or null
  bfloat16* rows;
  float* z;

  int64_t blocks() const { return jobs * ceil_div(features, int64_t{kFeatures}); }
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t blocks_each = ceil_div(features, int64_t{kFeatures});
    const int64_t job = team.index() / blocks_each;
    const int first = static_cast<int>(team.index() % blocks_each) * kFeatures;
    const int last = static_cast<int>(features);
    for (int i = team.rank(); i < kFeatures * (D + 1); i += team.size()) {
      const int feature = first + i / (D + 1);
      const int column = i % (D + 1);
      if (feature >= last) break;
      const bool is_constant = constant != 0 && feature == last - 1;
      float sum = 0;
      if (!is_constant) {
        const float* from = parts + job * from_stride + feature * (D + 1) + column;
#pragma unroll 12
        for (int64_t split = 0; split < splits; ++split) sum += from[split * jobs * from_stride];
      }
      if (totals != nullptr) {
        float total = 0;
#pragma unroll 12
        for (int64_t split = 0; split < splits; ++split) total += totals[(split * jobs + job) * (D + 1) + column];
        sum = is_constant ? constant * total : sum + eps * total;
      }
      if (sums != nullptr) sums[job * stride + feature * (D + 1) + column] = sum;
      const int part = feature / static_cast<int>(frequencies);
      if (part >= parts_each) continue;  // the constant
      const int64_t row = (job * parts_each + part) * padded + feature - part * frequencies;
      if (column == D) {
        z[row] = sum;
      } else {
        rows[row * D + column] = bfloat16(sum);
      }
    }
  }
};

/// base (jobs, D + 1) of PackedSums; one block per job.
template <int D>
struct Base {
  static constexpr int kThreads = 512;
  static constexpr int kSlices = 16;
  static constexpr size_t kShared = sizeof(float) * kSlices * (D + 1);
  int64_t features, stride;
  float eps, constant;
  const float* sums;
  float* base;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const float* from = sums + team.index() * stride;
    const int count = static_cast<int>(features) - (constant != 0 ? 1 : 0);
    auto* slices = team.template shared<float>();
    for (int i = team.rank(); i < kSlices * (D + 1); i += team.size()) {
      const int column = i % (D + 1);
      float sum = 0;
#pragma unroll 8
      for (int f = i / (D + 1); f < count; f += kSlices) sum += from[f * (D + 1) + column];
      slices[i] = sum;
    }
    team.sync();
    for (int i = team.rank(); i <= D; i += team.size()) {
      float sum = 0;
      for (int slice = 0; slice < kSlices; ++slice) sum += slices[slice * (D + 1) + i];
      base[team.index() * (D + 1) + i] = eps * sum + (constant != 0 ? constant * from[count * (D + 1) + i] : 0.0f);
    }
  }
};

/// dOmega (heads or 1, M, D) from parts (splits, jobs, M, D), of one head or of all.
struct FinishOmega {
  int64_t size, batch, heads, splits;
  bool shared;
  const float* parts;
  float* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t split = 0; split < splits; ++split) {
      for (int64_t job = shared ? 0 : i / size; job < batch * heads; job += shared ? 1 : heads)
        sum += parts[(split * batch * heads + job) * size + i % size];
    }
    to[i] = sum;
  }
};

}  // namespace bochner::cuda
