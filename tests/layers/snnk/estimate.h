// Monte-Carlo estimates of what a pair of feature maps stands for.
#pragma once

#include <cmath>
#include <functional>
#include <memory>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/random.h"
#include "layers/snnk/two_tower_features.h"

namespace bochner::test {

using Make = std::function<std::unique_ptr<TwoTowerFeatures>(Generator&)>;

inline Tensor vector_of(int64_t dim, double norm, uint64_t seed) {
  Generator generator(seed);
  const Tensor v = normal({1, dim}, generator);
  return v * (norm / std::sqrt(sum(square(v)).item()));
}

inline double dot(const Tensor& a, const Tensor& b) { return sum(a.cast(DType::f64) * b.cast(DType::f64)).item(); }

struct Estimate {
  double mean, error, variance;
};

/// Mean of Phi(x).Psi(w, b) over independent maps, the deviation of that mean, and the variance of one.
inline Estimate estimate(const Make& make, const Tensor& x, const Tensor& w, double b, int64_t maps = 400) {
  double total = 0;
  double squares = 0;
  for (int64_t i = 0; i < maps; ++i) {
    Generator generator(static_cast<uint64_t>(1000 + i));
    const auto map = make(generator);
    const Tensor phi = map->forward(x).value();
    const double value = dot(phi, map->weights(w, Tensor::from<float>({static_cast<float>(b)}, {1})));
    total += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(maps);
  const double variance = (squares - total * total / n) / (n - 1);
  return {total / n, std::sqrt(variance / n), variance};
}

}  // namespace bochner::test
