// What the backward passes of LayerNorm and BatchNorm add up over rows.
#pragma once

#include "engine/cuda/column_sum.h"

namespace bochner::cuda {

/// sums: g xhat and g; xhat with the mean and rstd of the row, or of the column.
template <class T, bool per_row>
struct GradientTerms {
  int64_t columns;
  const T *g, *x, *mean, *rstd;
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const {
    const int64_t at = row * columns + column;
    const int64_t s = per_row ? row : column;
    sums[0] += g[at] * ((x[at] - mean[s]) * rstd[s]);
    sums[1] += g[at];
  }
};

}  // namespace bochner::cuda
