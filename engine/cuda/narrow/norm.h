// LayerNorm of bf16 rows of 64 numbers, of which a warp holds sixteen at once (narrow/rows.h).
#pragma once

#include "engine/cuda/narrow/rows.h"
#include "engine/cuda/parts/norm_terms.h"
#include "engine/ops/norm.h"

namespace bochner::cuda::narrow {

#if defined(__CUDACC__)

/// Column sums over many matrices.
struct ColumnSums {
  float v[kUnits][2];

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < kUnits; ++n) v[n][0] = v[n][1] = 0;
  }
  __device__ void add(const Sum<kUnits>& x) {
#pragma unroll
    for (int n = 0; n < kUnits; ++n) {
      v[n][0] += x.v[n][0] + x.v[n][2];
      v[n][1] += x.v[n][1] + x.v[n][3];
    }
  }
  /// The whole warp's.
  __device__ void store(float* to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < kUnits; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = v[n][i];
#pragma unroll
        for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
        if (lane < 4) to[8 * n + 2 * lane + i] = sum;
      }
    }
  }
};

#else

struct ColumnSums {
  float v[kDim];

  void clear() { std::fill(std::begin(v), std::end(v), 0.0f); }
  void add(const Sum<kUnits>& x) {
    for (const auto& row : x.v) {
      for (int j = 0; j < kDim; ++j) v[j] += row[j];
    }
  }
  void store(float* to) const { std::copy(std::begin(v), std::end(v), to); }
};

#endif

struct NormRows {
  int64_t rows;
  Norm norm;
  float eps;
  const bfloat16* x;
  bfloat16* y;
  float *mean, *rstd;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t first = 16 * team.index();
    Sum<kUnits> made = normed_rows(x, first, rows, norm, eps, norm.gamma, norm.beta, mean, rstd);
    store_rows(made, y, kDim, first, rows);
  }
};

/// dx, and parts (warps, 2, 64): sums of g xhat and of g over the rows of a warp. dx may overwrite g.
struct NormRowsBackward {
  int64_t rows, warps;
  const bfloat16 *g, *x;
  const float *gamma, *mean, *rstd;
  const bfloat16* residual;
  bfloat16* dx;
  float* parts;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    ColumnSums scale_sums;
    ColumnSums shift_sums;
    scale_sums.clear();
    shift_sums.clear();
    for (int64_t first = 16 * team.index(); first < rows; first += 16 * warps) {
      const RowValues scale = row_values(rstd, first, rows);
      Sum<kUnits> xhat = widened(load_left<kUnits / 2>(x, kDim, first, rows));
      centre(xhat, row_values(mean, first, rows), scale);
      Sum<kUnits> flow = stored_rows<kUnits>(g, kDim, first, rows);
      shift_sums.add(flow);
      Sum<kUnits> along = flow;
      along.with(xhat, [](float& value, float normed) { value *= normed; });
      scale_sums.add(along);
      norm_gradient(flow, xhat, scale, gamma);
      if (residual != nullptr) {
        flow.with(widened(load_left<kUnits / 2>(residual, kDim, first, rows)),
                  [](float& value, float add) { value += add; });
      }
      store_rows(flow, dx, kDim, first, rows);
    }
    scale_sums.store(parts + 2 * team.index() * kDim);
    shift_sums.store(parts + (2 * team.index() + 1) * kDim);
  }
};

/// False if there are no kernels for these sizes.
inline bool layer_norm(const Tensor& x, const NormWeights& weights, double eps, const NormResult& result) {
  if (!is_narrow(x.size(1), {x, result.y})) return false;
  const NormStatistics& to = result.statistics;
  launch_warps(ceil_div(x.size(0), 16),
               NormRows{x.size(0), norm_of(weights.gamma, weights.beta), static_cast<float>(eps), x.data<bfloat16>(),
                        result.y.data<bfloat16>(), to.mean.data<float>(), to.rstd.data<float>()});
  return true;
}

inline bool layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const NormStatistics& statistics,
                                const Tensor& residual, const NormGradients& result) {
  if (!is_narrow(x.size(1), {g, x, residual, result.dx})) return false;
  constexpr int64_t kMostWarps = 2112;
  const int64_t warps = std::min(kMostWarps, ceil_div(x.size(0), 16));
  const Tensor parts = Tensor::empty({warps, 2, kDim}, DType::f32, x.device());
  launch_warps(warps, NormRowsBackward{x.size(0), warps, g.data<bfloat16>(), x.data<bfloat16>(), gamma.data<float>(),
                                       statistics.mean.data<float>(), statistics.rstd.data<float>(),
                                       pointer<bfloat16>(residual), result.dx.data<bfloat16>(), parts.data<float>()});
  strip_sums<2, float>(warps, kDim, PartTerms<float>{kDim, parts.data<float>()},
                       {result.dgamma.data<float>(), result.dbeta.data<float>()});
  return true;
}

}  // namespace bochner::cuda::narrow
