// The divisor of attention: the sum of a query's weights, which may be 0, or so small that its inverse overflows.
#pragma once

#include <limits>
#include <type_traits>

#include "engine/math.h"

namespace bochner {

/// 1 / sum, or 0 if the sum is 0 or subnormal: the query sees no key, or only keys without weight. NaN stays NaN.
template <class T>
BOCHNER_HD inline T inverse_of_weights(T sum) {
  return math::abs(sum) < std::numeric_limits<T>::min() ? T(0) : T(1) / sum;
}

/// The same for gradients, which multiply it by more than weights: at most 1e24 (f64: 1e200), so that products with it
/// stay finite. A query whose shifted weights have a smaller sum gets derivatives that are too small.
template <class T>
BOCHNER_HD inline T inverse_in_gradients(T sum) {
  const T most = static_cast<T>(std::is_same_v<T, float> ? 1e24 : 1e200);
  const T inverse = inverse_of_weights(sum);
  return inverse > most ? most : (inverse < -most ? -most : inverse);
}

}  // namespace bochner
