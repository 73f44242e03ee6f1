#include "engine/cpu/attention/fastfood_tile.h"

#include "engine/cpu/parts/butterflies.h"

namespace bochner::cpu {
namespace {

/// The stages stride, 2 stride, ..., stride radix / 2 on rows `stride` apart, in registers.
template <class T, int radix>
void stages(T* x, int64_t size, int64_t stride, int64_t columns) {
  using V = Vector<T>;
  for (int64_t base = 0; base < size; base += stride * radix) {
    for (int64_t row = base; row < base + stride; ++row) {
      for (int64_t column = 0; column < columns; column += kLanes<T>) {
        T* const at = x + row * kTile + column;
        V y[radix];
#pragma GCC unroll 8
        for (int i = 0; i < radix; ++i) y[i] = load<V>(at + i * stride * kTile);
        butterflies(y);
#pragma GCC unroll 8
        for (int i = 0; i < radix; ++i) store(at + i * stride * kTile, y[i]);
      }
    }
  }
}

/// to = factor * from, for one row
template <class T>
void scale_row(const T* from, T factor, int64_t columns, T* to) {
  for (int64_t i = 0; i < columns; i += kLanes<T>) store(to + i, load<Vector<T>>(from + i) * factor);
}

/// sum_i a_i b_i
template <class T>
T dot_row(const T* a, const T* b, int64_t columns) {
  Vector<T> sum{};
  for (int64_t i = 0; i < columns; i += kLanes<T>) sum += load<Vector<T>>(a + i) * load<Vector<T>>(b + i);
  return sum_of<T>(sum);
}

}  // namespace

template <class T>
void hadamard_columns(T* x, int64_t size, int64_t columns) {
  int64_t stride = 1;
  for (; stride * 8 <= size; stride *= 8) stages<T, 8>(x, size, stride, columns);
  if (stride * 4 <= size) {
    stages<T, 4>(x, size, stride, columns);
  } else if (stride * 2 <= size) {
    stages<T, 2>(x, size, stride, columns);
  }
}

template <class T>
FastFoodTile<T>::FastFoodTile(const FastFood<T>& fastfood, int64_t frequencies, int64_t dim)
    : fastfood_(fastfood),
      frequencies_(frequencies),
      dim_(dim),
      a_(fastfood.size * kTile),
      c_(fastfood.size * kTile),
      f_(fastfood.size * kTile) {}

template <class T>
int64_t FastFoodTile<T>::rows_of_block(int64_t block) const {
  return std::min(fastfood_.size, frequencies_ - block * fastfood_.size);
}

/// c = Pi H B x and f = H G c
template <class T>
void FastFoodTile<T>::up_to_second_transform(const T* Xt, int64_t block, int64_t columns) {
  const int64_t P = fastfood_.size;
  const T* G = fastfood_.diagonals + (block * 3 + 1) * P;
  const T* B = G + P;
  const int64_t* order = fastfood_.permutation + block * P;
  T* a = a_;
  T* c = c_;
  T* f = f_;
  for (int64_t i = 0; i < dim_; ++i) scale_row(Xt + i * kTile, B[i], columns, a + i * kTile);
  std::fill(a + dim_ * kTile, a + P * kTile, T(0));
  hadamard_columns(a, P, columns);
  for (int64_t i = 0; i < P; ++i) {
    scale_row(a + order[i] * kTile, T(1), columns, c + i * kTile);
    scale_row(a + order[i] * kTile, G[i], columns, f + i * kTile);
  }
  hadamard_columns(f, P, columns);
}

template <class T>
void FastFoodTile<T>::forward(const T* Xt, int64_t columns, T* U) {
  const int64_t P = fastfood_.size;
  for (int64_t block = 0; block < fastfood_.blocks; ++block) {
    up_to_second_transform(Xt, block, columns);
    const T* S = fastfood_.diagonals + block * 3 * P;
    const T* f = f_;
    for (int64_t i = 0; i < rows_of_block(block); ++i) {
      scale_row(f + i * kTile, S[i], columns, U + (block * P + i) * kTile);
    }
  }
}

template <class T>
void FastFoodTile<T>::backward(const T* Xt, const T* dU, int64_t columns, T factor, T* dXt, T* dDiagonals) {
  const int64_t P = fastfood_.size;
  T* a = a_;
  T* c = c_;
  T* f = f_;
  for (int64_t i = 0; i < dim_; ++i) std::fill_n(dXt + i * kTile, columns, T(0));
  for (int64_t block = 0; block < fastfood_.blocks; ++block) {
    const T* S = fastfood_.diagonals + block * 3 * P;
    const T* G = S + P;
    const T* B = G + P;
    T* dS = dDiagonals == nullptr ? nullptr : dDiagonals + block * 3 * P;
    const int64_t* order = fastfood_.permutation + block * P;
    const int64_t rows = rows_of_block(block);
    const T* du = dU + block * P * kTile;
    if (dS != nullptr) up_to_second_transform(Xt, block, columns);
    for (int64_t i = 0; i < rows; ++i) {  // u = S f:  dS = sum u f,  df = S du
      if (dS != nullptr) dS[i] += factor * dot_row(du + i * kTile, f + i * kTile, columns);
      scale_row(du + i * kTile, S[i], columns, f + i * kTile);
    }
    std::fill(f + rows * kTile, f + P * kTile, T(0));
    hadamard_columns(f, P, columns);   // f = H e:  de = H df
    for (int64_t i = 0; i < P; ++i) {  // e = G c:  dG = sum de c,  c = Pi a:  da = Pi^T (G de)
      if (dS != nullptr) dS[P + i] += factor * dot_row(f + i * kTile, c + i * kTile, columns);
      scale_row(f + i * kTile, G[i], columns, a + order[i] * kTile);
    }
    hadamard_columns(a, P, columns);      // a = H b:  db = H da
    for (int64_t i = 0; i < dim_; ++i) {  // b = B x:  dB = sum db x,  dx = B db
      const T* x = Xt + i * kTile;
      T* dx = dXt + i * kTile;
      if (dS != nullptr) dS[2 * P + i] += factor * dot_row(a + i * kTile, x, columns);
      for (int64_t t = 0; t < columns; t += kLanes<T>) {
        store(dx + t, load<Vector<T>>(dx + t) + load<Vector<T>>(a + i * kTile + t) * B[i]);
      }
    }
  }
}

template void hadamard_columns(float*, int64_t, int64_t);
template void hadamard_columns(double*, int64_t, int64_t);
template class FastFoodTile<float>;
template class FastFoodTile<double>;

}  // namespace bochner::cpu
