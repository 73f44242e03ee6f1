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
  bool movable() const { return aligned(g) && aligned(x) && (per_row || (aligned(mean) && aligned(rstd))); }
  template <int V>
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, Vector<T, V> (&sums)[2]) const {
    const int64_t at = row * columns + column;
    const Vector<T, V> flow = load_as<T, V>(g + at);
    const Vector<T, V> value = load_as<T, V>(x + at);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int64_t s = per_row ? row : column + j;
      sums[0].at[j] += flow.at[j] * ((value.at[j] - mean[s]) * rstd[s]);
      sums[1].at[j] += flow.at[j];
    }
  }
};

/// sums: the sums of parts (warps, 2, columns).
template <class T>
struct PartTerms {
  int64_t columns;
  const T* parts;
  bool movable() const { return aligned(parts); }
  template <int V>
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, Vector<T, V> (&sums)[2]) const {
    const Vector<T, V> gx = load<V>(parts + 2 * row * columns + column);
    const Vector<T, V> g = load<V>(parts + (2 * row + 1) * columns + column);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      sums[0].at[j] += gx.at[j];
      sums[1].at[j] += g.at[j];
    }
  }
};

}  // namespace bochner::cuda
