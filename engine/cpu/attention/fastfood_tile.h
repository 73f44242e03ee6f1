// FastFood (Le, Sarlos, Smola, ICML 2013; KL Eq. 6) on a transposed tile of tokens: u = S H G Pi H B x in each block,
// by Walsh-Hadamard transforms down the columns. This takes O(M log D) per token; a dense Omega takes O(M D).
#pragma once

#include "engine/cpu/attention/attention_tile.h"

namespace bochner::cpu {

/// The FastFood factors of a head; see FastFoodRows.
template <class T>
struct FastFood {
  const T* diagonals;          ///< (blocks, 3, size): S, G and B of each block
  const int64_t* permutation;  ///< (blocks, size): (Pi x)_i = x_permutation[i]
  int64_t blocks;
  int64_t size;  ///< P, a power of two, at least the tokens' size
};

template <class T>
class FastFoodTile {
 public:
  /// The first `frequencies` of blocks * size rows, for tokens of `dim` entries padded with zeros to `size`.
  FastFoodTile(const FastFood<T>& fastfood, int64_t frequencies, int64_t dim);

  /// U (frequencies x kTile) = V X^T, from X^T (dim x kTile).
  void forward(const T* Xt, int64_t columns, T* U);
  /// dX^T = V^T dU. Adds `factor` times the gradient of the diagonals, unless that is null.
  void backward(const T* Xt, const T* dU, int64_t columns, T factor, T* dXt, T* dDiagonals);

 private:
  int64_t rows_of_block(int64_t block) const;
  void up_to_second_transform(const T* Xt, int64_t block, int64_t columns);

  FastFood<T> fastfood_;
  int64_t frequencies_;
  int64_t dim_;
  Buffer<T> a_;  ///< (size x kTile): H B x, then gradients
  Buffer<T> c_;  ///< Pi H B x
  Buffer<T> f_;  ///< H G Pi H B x
};

/// In place, X = H X for X (size x kTile), size a power of two; only the first `columns` columns, whole vectors.
template <class T>
void hadamard_columns(T* x, int64_t size, int64_t columns);

}  // namespace bochner::cpu
