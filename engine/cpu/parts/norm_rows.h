// LayerNorm of contiguous rows, forward and backward; equations in engine/ops/norm.h. Used by the kernels in norm.cpp
// and by the fused blocks that normalise rows as they go. T is the type of sums and weights; rows in memory may be
// bf16.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/cpu/parts/row_sums.h"

namespace bochner::cpu {

namespace detail {

template <class T, int R, class S>
inline void moments(const S* x, int64_t count, T eps, T* mean, T* rstd) {
  const T share = T(1) / static_cast<T>(count);
  const std::array<T, R> sum =
      row_sums<T, R>(count, [=]<class V>(TypeTag<V>, int r, int64_t i) { return load<V>(x + r * count + i); });
  T centre[R];
  for (int r = 0; r < R; ++r) centre[r] = sum[static_cast<size_t>(r)] * share;
  const std::array<T, R> squares = row_sums<T, R>(count, [&]<class V>(TypeTag<V>, int r, int64_t i) {
    const V centred = load<V>(x + r * count + i) - centre[r];
    return centred * centred;
  });
  for (int r = 0; r < R; ++r) {
    mean[r] = centre[r];
    rstd[r] = T(1) / std::sqrt(squares[static_cast<size_t>(r)] * share + eps);
  }
}

template <class T, int R, class G, class S>
inline void backward(const G* g, const S* x, int64_t count, const T* mean, const T* rstd, const T* gamma,
                     const S* residual, S* dx, T* dgamma, T* dbeta) {
  std::array<T, R> centre;
  std::array<T, R> spread;
  std::copy(mean, mean + R, centre.begin());
  std::copy(rstd, rstd + R, spread.begin());
  const auto xhat_at = [=]<class V>(TypeTag<V>, int r, int64_t i) {
    return (load<V>(x + r * count + i) - centre[static_cast<size_t>(r)]) * spread[static_cast<size_t>(r)];
  };
  const std::array<T, R> sum_h = row_sums<T, R>(
      count, [=]<class V>(TypeTag<V>, int r, int64_t i) { return load<V>(g + r * count + i) * load<V>(gamma + i); });
  const std::array<T, R> sum_hx = row_sums<T, R>(count, [=]<class V>(TypeTag<V> tag, int r, int64_t i) {
    return load<V>(g + r * count + i) * load<V>(gamma + i) * xhat_at(tag, r, i);
  });
  T mean_h[R];
  T mean_hx[R];
  for (int r = 0; r < R; ++r) {
    mean_h[r] = sum_h[static_cast<size_t>(r)] / static_cast<T>(count);
    mean_hx[r] = sum_hx[static_cast<size_t>(r)] / static_cast<T>(count);
  }
  for_lanes<T>(count, [&]<class V>(TypeTag<V> tag, int64_t i) {
    V to_gamma = load<V>(dgamma + i);
    V to_beta = load<V>(dbeta + i);
    const V scale = load<V>(gamma + i);
    for (int r = 0; r < R; ++r) {
      const V gradient = load<V>(g + r * count + i);
      const V xhat = xhat_at(tag, r, i);
      to_gamma += gradient * xhat;
      to_beta += gradient;
      V flow = (gradient * scale - mean_h[r] - xhat * mean_hx[r]) * spread[static_cast<size_t>(r)];
      if (residual != nullptr) flow += load<V>(residual + r * count + i);
      store<V>(dx + r * count + i, flow);
    }
    store<V>(dgamma + i, to_gamma);
    store<V>(dbeta + i, to_beta);
  });
}

}  // namespace detail

/// mean and rstd of each row of x (rows, count).
template <class T, class S>
inline void row_moments(const S* x, int64_t rows, int64_t count, T eps, T* mean, T* rstd) {
  for_row_blocks(rows, [=]<int R>(int64_t row, std::integral_constant<int, R>) {
    detail::moments<T, R>(x + row * count, count, eps, mean + row, rstd + row);
  });
}

/// y = (x - mean) rstd gamma + beta; rows of y are y_stride elements apart.
template <class T, class S, class To>
inline void normalise_rows(const S* x, int64_t rows, int64_t count, const T* mean, const T* rstd, const T* gamma,
                           const T* beta, To* y, int64_t y_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    const S* from = x + row * count;
    To* to = y + row * y_stride;
    const T centre = mean[row];  // copies, since the compiler must assume that y overlaps them
    const T scale = rstd[row];
    for_lanes<T>(count, [=]<class V>(TypeTag<V>, int64_t i) {
      const V xhat = (load<V>(from + i) - centre) * scale;
      store<V>(to + i, xhat * load<V>(gamma + i) + load<V>(beta + i));
    });
  }
}

/// dx = rstd (h - mean h - xhat mean(h xhat)) [+ residual], h = g gamma;  dgamma += g xhat, dbeta += g.
/// residual may be null; dx may be g or residual.
template <class T, class G, class S>
inline void normalise_rows_backward(const G* g, const S* x, int64_t rows, int64_t count, const T* mean, const T* rstd,
                                    const T* gamma, const S* residual, S* dx, T* dgamma, T* dbeta) {
  for_row_blocks(rows, [=]<int R>(int64_t row, std::integral_constant<int, R>) {
    const int64_t at = row * count;
    detail::backward<T, R>(g + at, x + at, count, mean + row, rstd + row, gamma,
                           residual == nullptr ? nullptr : residual + at, dx + at, dgamma, dbeta);
  });
}

}  // namespace bochner::cpu
