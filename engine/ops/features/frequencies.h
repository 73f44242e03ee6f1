// The frequencies of a kernel attention: the rows of Omega in u = scale Omega x, written out (dense) or as the factors
// of FastFood.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "engine/tensor.h"

namespace bochner {

/// What makes FastFood (KL Eq. 6) of its diagonals: Omega = S H G Pi H B in each of several blocks of P rows, P a power
/// of two not below the size of x, which is padded by zeros. O(M log P) for a token.
struct FastFoodRows {
  Tensor permutation;  ///< Pi, i64 (blocks, P), on the CPU: the row of H B x that each block's Pi puts at i
  int64_t count = 0;   ///< M: rows of all blocks that are used, 0 < M <= blocks P
};

/// Either case, in `Array`s: tensors, or variables that learn.
template <class Array>
struct FrequenciesOf {
  /// Dense: Omega (1 or heads, M, D), or undefined for u = scale x. FastFood: the diagonals S, G and B of each block,
  /// (1 or heads, 3 blocks, P). Gradients are of these.
  Array values;
  std::optional<FastFoodRows> fastfood;  ///< none where dense

  FrequenciesOf() = default;
  template <std::convertible_to<Array> T>
  FrequenciesOf(T&& Omega) : values(std::forward<T>(Omega)) {}  // NOLINT: a dense Omega is given as it is
  FrequenciesOf(Array given, std::optional<FastFoodRows> rows) : values(std::move(given)), fastfood(std::move(rows)) {}

  bool defined() const { return values.defined(); }
  /// M, for x of size `dim`.
  int64_t count(int64_t dim) const {
    if (fastfood.has_value()) return fastfood->count;
    return defined() ? values.size(1) : dim;
  }
};

using Frequencies = FrequenciesOf<Tensor>;

}  // namespace bochner
