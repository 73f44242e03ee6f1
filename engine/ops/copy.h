// Moves elements: copies between any strides, types and devices; fills and counts.
#pragma once

#include <limits>
#include <type_traits>

#include "engine/math.h"
#include "engine/tensor.h"

namespace bochner {

/// For the kernels of both backends: a number converted to another type. Floating numbers are rounded towards 0 to an
/// integer, and clamped to the range of its type; NaN becomes 0.
template <class To, class From>
BOCHNER_HD To converted(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, bfloat16>) {
    return converted<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    return bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    constexpr To least = std::numeric_limits<To>::min();
    constexpr To most = std::numeric_limits<To>::max();
    constexpr From beyond = static_cast<From>(most / 2 + 1) * 2;  // exact, where `most` is not
    if (value != value) return 0;
    return value >= beyond ? most : (value <= static_cast<From>(least) ? least : static_cast<To>(value));
  } else {
    return static_cast<To>(value);
  }
}

/// to[i] = from[i], converted to the type of `to`; shapes must be equal. The tensors may overlap.
void copy(const Tensor& from, const Tensor& to);
/// x, or a copy of it if an elementwise op that writes to `to` would change elements of x before it reads them: if both
/// share memory, but not element by element.
Tensor apart_from(const Tensor& x, const Tensor& to);
/// to[i] = value.
void fill(const Tensor& to, double value);
/// to[i] = i; i64, contiguous.
void count_up(const Tensor& to);

}  // namespace bochner
