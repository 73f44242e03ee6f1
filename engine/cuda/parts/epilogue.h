// The passes around the products of the fused layers: bias, activation, dropout and residual in one, and the masked
// gradient with its column sums.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/bf16.h"
#include "engine/cuda/parts/activation.h"
#include "engine/cuda/parts/blas.h"
#include "engine/cuda/parts/column_sum.h"
#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/philox.h"

namespace bochner::cuda {

/// to = act(u + b) m [+ residual], V elements per thread: 8, those of one block of random words, or 1; `first` is the
/// number of the first element.
template <class S, class Act, int V>
struct Epilogue {
  using T = ComputeType<S>;
  Act act;
  bool drops;
  DropoutFactors<T> drop;
  int64_t first;
  Divider vectors;  ///< of a row
  const S* u;
  const T* bias;
  const S* residual;
  S* to;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const auto index = static_cast<uint32_t>(t);
    const uint32_t column = V * (index - vectors.quotient(index) * vectors.divisor);
    Vector<T, V> value = load_as<T, V>(u + V * t);
    const Vector<T, V> shift = load<V>(bias + column);
#pragma unroll
    for (int j = 0; j < V; ++j) value.at[j] = act.template at<S>(value.at[j] + shift.at[j]).value;
    if (drops) {
      T factor[V];
      drop.read(first + V * t, factor);
#pragma unroll
      for (int j = 0; j < V; ++j) value.at[j] *= factor[j];
    }
    if (residual != nullptr) {
      const Vector<T, V> add = load_as<T, V>(residual + V * t);
#pragma unroll
      for (int j = 0; j < V; ++j) value.at[j] += add.at[j];
    }
    store_from(to + V * t, value);
  }
};

/// e = g m, or g step(y) scale if y is not null, and its column sums. e is written unless it is null.
template <class S>
struct Masked {
  using T = ComputeType<S>;
  bool drops;
  DropoutFactors<T> drop;
  int64_t first, columns;
  const S* g;
  S* e;
  const S* y = nullptr;
  T scale = 1;

  bool movable() const { return aligned(g) && aligned(e) && aligned(y); }
  template <int V>
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, Vector<T, V> (&sums)[1]) const {
    const int64_t at = row * columns + column;
    Vector<T, V> value = load_as<T, V>(g + at);
    if (y != nullptr) {
      const Vector<T, V> made = load_as<T, V>(y + at);
#pragma unroll
      for (int j = 0; j < V; ++j) value.at[j] = made.at[j] > T(0) ? value.at[j] * scale : T(0);
    } else if (drops) {
      T factor[V];
      drop.read(first + at, factor);
#pragma unroll
      for (int j = 0; j < V; ++j) value.at[j] *= factor[j];
    }
    if (e != nullptr) store_from(e + at, value);
#pragma unroll
    for (int j = 0; j < V; ++j) sums[0].at[j] += value.at[j];
  }
};

/// C (m x n) = op(A) op(B) [+ C], all contiguous; C may be wider than the factors.
inline void multiply(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Tensor& c, bool adds) {
  const int64_t k = transpose_a ? a.size(0) : a.size(1);
  gemm(a.dtype(), c.dtype(),
       {transpose_a, transpose_b, c.size(0), c.size(1), k, a.raw(), a.size(1), 0, b.raw(), b.size(1), 0, c.raw(),
        c.size(1), 0, 1, 1, adds ? 1.0 : 0.0});
}

/// to = the result of Epilogue for u and `residual`, all with the same rows; `first` is the index of their first number
/// in the tensor that dropout sees.
template <class S, class Act>
void epilogue(Act act, const Dropout& drop, int64_t first, const Tensor& u, const Tensor& bias, const Tensor& residual,
              const Tensor& to) {
  using T = ComputeType<S>;
  const int64_t rows = u.size(0);
  const int64_t at_once = std::max<int64_t>(1, (INT32_MAX - 1) / std::max<int64_t>(1, u.size(1)));  // for Divider
  if (rows > at_once) {
    for (int64_t begin = 0; begin < rows; begin += at_once) {
      const int64_t end = std::min(rows, begin + at_once);
      const auto piece = [&](const Tensor& x) { return x.defined() ? x.slice(0, begin, end) : Tensor(); };
      epilogue<S>(act, drop, first + begin * u.size(1), piece(u), bias, piece(residual), piece(to));
    }
    return;
  }
  const S* others = residual.defined() ? residual.data<S>() : nullptr;
  const auto run = [&]<int V>(std::integral_constant<int, V>) {
    BOCHNER_ASSERT(u.size() / V < INT32_MAX);
    launch_threads(u.size() / V,
                   Epilogue<S, Act, V>{act, drop.active(), DropoutFactors<T>(drop), first, Divider(u.size(1) / V),
                                       u.data<S>(), bias.data<T>(), others, to.data<S>()});
  };
  const auto whole = [](const auto* from) { return reinterpret_cast<uintptr_t>(from) % 16 == 0; };
  if (u.size(1) % kFactors == 0 && whole(u.data<S>()) && whole(bias.data<T>()) && whole(others) &&
      whole(to.data<S>())) {
    run(std::integral_constant<int, kFactors>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

}  // namespace bochner::cuda
