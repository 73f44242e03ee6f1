// LayerNorm of one row, forward and backward; equations in engine/ops/norm.h. Shared by the kernels of norm.cpp and by
// the fused blocks that normalise rows as they go.
#pragma once

#include <cmath>

#include "engine/cpu/lanes.h"

namespace bochner::cpu {

template <class T>
struct RowMoments {
  T mean, rstd;
};

template <class T>
inline RowMoments<T> row_moments(const T* x, int64_t count, T eps) {
  const T share = T(1) / static_cast<T>(count);
  const T mean = sum_lanes<T>(count, [x]<class V>(TypeTag<V>, int64_t i) { return load<V>(x + i); }) * share;
  const T squares = sum_lanes<T>(count, [x, mean]<class V>(TypeTag<V>, int64_t i) {
    const V centred = load<V>(x + i) - mean;
    return centred * centred;
  });
  return {mean, T(1) / std::sqrt(squares * share + eps)};
}

/// y = (x - mean) rstd gamma + beta; y may be x.
template <class T>
inline void normalise_row(const T* x, int64_t count, RowMoments<T> moments, const T* gamma, const T* beta, T* y) {
  for_lanes<T>(count, [=]<class V>(TypeTag<V>, int64_t i) {
    const V xhat = (load<V>(x + i) - moments.mean) * moments.rstd;
    store<V>(y + i, xhat * load<V>(gamma + i) + load<V>(beta + i));
  });
}

/// dx = rstd (h - mean h - xhat mean(h xhat)) [+ residual], h = g gamma;  dgamma += g xhat, dbeta += g.
/// residual may be null; dx may be g or residual.
template <class T>
inline void normalise_row_backward(const T* g, const T* x, int64_t count, RowMoments<T> moments, const T* gamma,
                                   const T* residual, T* dx, T* dgamma, T* dbeta) {
  using V = Vector<T>;
  constexpr int64_t kStep = kLanes<T>;
  const auto xhat_at = [=]<class U>(TypeTag<U>, int64_t i) { return (load<U>(x + i) - moments.mean) * moments.rstd; };
  V sum_h{}, sum_hx{}, sum_h2{}, sum_hx2{};
  T rest_h(0), rest_hx(0);
  const auto gather = [&]<class U>(TypeTag<U> tag, int64_t i, U& total_h, U& total_hx) {
    const U gradient = load<U>(g + i);
    const U h = gradient * load<U>(gamma + i);
    const U xhat = xhat_at(tag, i);
    total_h += h;
    total_hx += h * xhat;
    store<U>(dgamma + i, load<U>(dgamma + i) + gradient * xhat);
    store<U>(dbeta + i, load<U>(dbeta + i) + gradient);
  };
  int64_t i = 0;
  for (; i + 2 * kStep <= count; i += 2 * kStep) {
    gather(TypeTag<V>{}, i, sum_h, sum_hx);
    gather(TypeTag<V>{}, i + kStep, sum_h2, sum_hx2);
  }
  for (; i + kStep <= count; i += kStep) gather(TypeTag<V>{}, i, sum_h, sum_hx);
  for (; i < count; ++i) gather(TypeTag<T>{}, i, rest_h, rest_hx);
  const T share = T(1) / static_cast<T>(count);
  const T mean_h = (sum_of<T>(sum_h + sum_h2) + rest_h) * share;
  const T mean_hx = (sum_of<T>(sum_hx + sum_hx2) + rest_hx) * share;
  for_lanes<T>(count, [&]<class U>(TypeTag<U> tag, int64_t j) {
    const U h = load<U>(g + j) * load<U>(gamma + j);
    U flow = (h - mean_h - xhat_at(tag, j) * mean_hx) * moments.rstd;
    if (residual != nullptr) flow += load<U>(residual + j);
    store<U>(dx + j, flow);
  });
}

}  // namespace bochner::cpu
