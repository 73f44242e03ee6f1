// The frequencies of a kernel attention: the rows of Omega in u = scale Omega x, written out (dense) or as the factors
// of FastFood.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "engine/tensor.h"

namespace bochner {

/// FastFood (KL Eq. 6) without its diagonals: Omega = S H G Pi H B in each of several blocks of P rows. P is a power of
/// two, at least the size of x, which is padded with zeros. It costs O(M log P) per token.
struct FastFoodRows {
  Tensor permutation;  ///< Pi, i64 (blocks, P), on the CPU: the row of H B x that each block's Pi puts at i
  int64_t count = 0;   ///< M: number of rows used, 0 < M <= blocks P
};

/// Both cases, as tensors or as variables that learn: `Array`.
template <class Array>
struct FrequenciesOf {
  /// Dense: Omega (1 or heads, M, D), or undefined for u = scale x. FastFood: the diagonals S, G and B of each block,
  /// (1 or heads, 3 blocks, P). These get the gradients.
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
