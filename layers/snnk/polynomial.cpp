#include "layers/snnk/polynomial.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/ops/unary.h"

namespace bochner {

std::vector<double> tanh_coefficients(int count) {
  // From tanh' = 1 - tanh^2:  (n + 1) a_(n+1) = [n = 0] - sum_(i + j = n) a_i a_j
  std::vector<double> a(static_cast<size_t>(std::max(count, 1)));
  for (size_t n = 0; n + 1 < a.size(); ++n) {
    double next = n == 0 ? 1 : 0;
    for (size_t i = 0; i <= n; ++i) next -= a[i] * a[n - i];
    a[n + 1] = next / static_cast<double>(n + 1);
  }
  return a;
}

PolynomialFeatures::Plan PolynomialFeatures::plan_of(const PolynomialOptions& options) {
  const std::vector<double>& a = options.coefficients;
  const bool all_zero = std::all_of(a.begin(), a.end(), [](double coefficient) { return coefficient == 0; });
  if (options.features < 1 || all_zero || a.size() > 64) {
    fail("polynomial features: {} features of {} coefficients; at least one of each, one not 0, at most 64",
         options.features, a.size());
  }
  Plan plan;
  plan.counts.assign(a.size(), 0);
  for (int64_t j = 0; j < options.features; ++j) {
    size_t chosen = 0;
    double largest = 0;
    for (size_t n = 0; n < a.size(); ++n) {
      if (a[n] == 0) continue;
      const double share =
          std::ldexp(1, -static_cast<int>(n) - 1) / static_cast<double>(plan.counts[n]);  // or infinity
      if (share > largest) chosen = n;
      largest = std::max(largest, share);
    }
    ++plan.counts[chosen];
  }
  for (size_t n = 0; n < a.size(); ++n) {
    const double scale = std::sqrt(std::abs(a[n]) / static_cast<double>(plan.counts[n]));
    plan.scales.insert(plan.scales.end(), static_cast<size_t>(plan.counts[n]), static_cast<float>(scale));
    plan.signs.insert(plan.signs.end(), static_cast<size_t>(plan.counts[n]), a[n] < 0 ? -1.F : 1.F);
    plan.rows += static_cast<int64_t>(n) * plan.counts[n];
  }
  plan.rows = std::max<int64_t>(plan.rows, 1);
  return plan;
}

Projection PolynomialFeatures::drawn(int64_t inputs, const PolynomialOptions& options, int64_t rows, Generator& init) {
  if (inputs < 1) fail("polynomial features: {} inputs; at least 1", inputs);
  const auto coins = [&](const Shape& shape) { return bernoulli(shape, 0.5, init) * 2.0 - 1.0; };
  Projection projection{.G = coins({rows, inputs}) * options.scale, .scale = options.scale};
  projection.offset = coins({rows});
  return projection;
}

PolynomialFeatures::PolynomialFeatures(Slot slot, int64_t inputs, const PolynomialOptions& options, Generator& init)
    : PolynomialFeatures(std::move(slot), inputs, options, plan_of(options), init) {}

PolynomialFeatures::PolynomialFeatures(Slot slot, int64_t inputs, const PolynomialOptions& options, const Plan& plan,
                                       Generator& init)
    : TwoTowerFeatures(std::move(slot), drawn(inputs, options, plan.rows, init), false),
      counts_(buffer("counts", Tensor::from(plan.counts, {static_cast<int64_t>(plan.counts.size())}))),
      scales_(buffer("scales", Tensor::from(plan.scales, {options.features}))),
      signs_(buffer("signs", Tensor::from(plan.signs, {options.features}))) {}

PolynomialFeatures::PolynomialFeatures(Slot slot, const PolynomialFeatures& other, const Projection& projection)
    : TwoTowerFeatures(std::move(slot), projection, false),
      counts_(buffer("counts", other.counts_.clone())),
      scales_(buffer("scales", other.scales_.clone())),
      signs_(buffer("signs", other.signs_.clone())) {}

int64_t PolynomialFeatures::features() const { return scales_.size(); }

std::unique_ptr<TwoTowerFeatures> PolynomialFeatures::after(Slot slot, const Tensor& W, const Tensor& b) const {
  return std::unique_ptr<TwoTowerFeatures>(new PolynomialFeatures(std::move(slot), *this, projection(W, b)));
}

Variable PolynomialFeatures::phi(const Variable& u, const Variable&) const {
  const std::vector<int64_t> counts = this->counts();
  // The rows of degree n are n groups of counts[n]: the feature is a product of n slices.
  std::vector<Variable> parts;
  int64_t row = 0;
  for (size_t n = 0; n < counts.size(); ++n) {
    const int64_t count = counts[n];
    if (count == 0) continue;
    Variable product =
        n == 0 ? Variable(Tensor::full({u.size(0), count}, 1, u.dtype(), u.device())) : slice(u, 1, row, row + count);
    for (size_t k = 1; k < n; ++k) {
      const int64_t begin = row + static_cast<int64_t>(k) * count;
      product = product * slice(u, 1, begin, begin + count);
    }
    row += static_cast<int64_t>(n) * count;
    parts.push_back(product);
  }
  return concat(parts, 1) * Variable(scales_.cast(u.dtype()));
}

Tensor PolynomialFeatures::slope(const Tensor& u, const Tensor&, const Tensor&) const {
  const std::vector<int64_t> counts = this->counts();
  std::vector<Tensor> parts;
  int64_t row = 0;
  for (size_t n = 0; n < counts.size(); ++n) {
    const int64_t count = counts[n];
    if (count == 0) continue;
    Tensor total = Tensor::zeros({u.size(0), count, inputs()}, u.dtype(), u.device());
    for (size_t k = 0; k < n; ++k) {  // the product rule: every factor but the k-th, times its row of G
      Tensor others = Tensor::full({u.size(0), count}, 1, u.dtype(), u.device());
      for (size_t i = 0; i < n; ++i) {
        const int64_t begin = row + static_cast<int64_t>(i) * count;
        if (i != k) others = others * u.slice(1, begin, begin + count);
      }
      const int64_t begin = row + static_cast<int64_t>(k) * count;
      total = total + others.unsqueeze(2) * G().slice(0, begin, begin + count).unsqueeze(0);
    }
    row += static_cast<int64_t>(n) * count;
    parts.push_back(total);
  }
  return concat(parts, 1) * scales_.unsqueeze(1);
}

Tensor PolynomialFeatures::weights(const Tensor& W, const Tensor& b) const {
  return phi(project_weights(W, b), {}).value() * signs_.cast(DType::f64);
}

}  // namespace bochner
