// The terms that the backward passes of LayerNorm and BatchNorm sum over rows.
#pragma once

#include "engine/bf16.h"
#include "engine/cuda/parts/column_sum.h"

namespace bochner::cuda {

/// sums: g xhat and g; xhat with the mean and rstd of the row, or of the column.
template <class S, bool per_row>
struct GradientTerms {
  using T = ComputeType<S>;
  int64_t columns;
  const S *g, *x;
  const T *mean, *rstd;
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const {
    const int64_t at = row * columns + column;
    const int64_t s = per_row ? row : column;
    const auto flow = static_cast<T>(g[at]);
    sums[0] += flow * ((static_cast<T>(x[at]) - mean[s]) * rstd[s]);
    sums[1] += flow;
  }
};

}  // namespace bochner::cuda
