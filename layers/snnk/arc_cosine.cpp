#include "layers/snnk/arc_cosine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

using Polynomial = std::vector<double>;

double value_at(const Polynomial& p, double c) {
  double value = 0;
  for (size_t i = p.size(); i-- > 0;) value = value * c + p[i];
  return value;
}

Projection drawn(int64_t inputs, const ArcCosineOptions& options, Generator& init) {
  if (options.features < 1 || options.order < 0 || options.order > 8) {
    fail("arc-cosine features: {} features of order {}; at least 1 feature, order 0 to 8", options.features,
         options.order);
  }
  if (options.floor != 0 && options.order != 1)
    fail("arc-cosine features: a floor needs order 1, not {}", options.order);
  if (!(options.scale > 0)) fail("arc-cosine features: scale {} must be positive", options.scale);
  Projection projection{.G = gaussian_rows(options.features, inputs, options.orthogonal, init) * options.scale,
                        .scale = options.scale};
  if (options.bias) projection.offset = normal({options.features}, init);
  return projection;
}

}  // namespace

double arc_cosine_kernel(int n, double x_norm, double y_norm, double angle) {
  // With c = cos a, (1 / sin a) d/da = -d/dc, so J_n = s^(2n + 1) (d/dc)^n ((pi - a) / s) = p_n (pi - a) + q_n s with
  // polynomials in c:  p' = (1 - c^2) dp + (2n + 1) c p,   q' = p + (1 - c^2) dq + 2n c q,   p_0 = 1, q_0 = 0.
  const auto next = [](const Polynomial& f, double k) {  // (1 - c^2) f' + k c f
    Polynomial result(f.size() + 1);
    for (size_t i = 0; i < f.size(); ++i) {
      if (i > 0) result[i - 1] += static_cast<double>(i) * f[i];
      result[i + 1] += (k - static_cast<double>(i)) * f[i];
    }
    return result;
  };
  Polynomial p = {1};
  Polynomial q = {0};
  for (int i = 0; i < n; ++i) {
    Polynomial after = next(q, 2 * i);
    after.resize(std::max(after.size(), p.size()));
    for (size_t k = 0; k < p.size(); ++k) after[k] += p[k];
    q = after;
    p = next(p, 2 * i + 1);
  }
  const double c = std::cos(angle);
  const double J = value_at(p, c) * (std::numbers::pi - angle) + value_at(q, c) * std::sin(angle);
  return std::pow(x_norm * y_norm, n) * J / std::numbers::pi;
}

ArcCosineFeatures::ArcCosineFeatures(Slot slot, int64_t inputs, ArcCosineOptions options, Generator& init)
    : TwoTowerFeatures(std::move(slot), drawn(inputs, options, init), false),
      order_(options.order),
      floor_(options.floor) {}

ArcCosineFeatures::ArcCosineFeatures(Slot slot, const ArcCosineFeatures& other, const Projection& projection)
    : TwoTowerFeatures(std::move(slot), projection, false), order_(other.order_), floor_(other.floor_) {}

std::unique_ptr<TwoTowerFeatures> ArcCosineFeatures::after(Slot slot, const Tensor& W, const Tensor& b) const {
  return std::unique_ptr<TwoTowerFeatures>(new ArcCosineFeatures(std::move(slot), *this, projection(W, b)));
}

double ArcCosineFeatures::unit() const { return 1 / std::sqrt(static_cast<double>(rows())); }

Variable ArcCosineFeatures::phi(const Variable& u, const Variable&) const {
  if (order_ == 0) return step(u) * unit();
  const Variable positive = floor_ == 0 ? relu(u) : relu(u - floor_) + floor_;
  Variable result = positive * unit();
  for (int i = 1; i < order_; ++i) result = result * positive;
  return result;
}

Tensor ArcCosineFeatures::slope(const Tensor& u, const Tensor&, const Tensor&) const {
  Tensor outer = step(u - floor_) * (order_ * unit());  // n max(u, 0)^(n - 1); 0 for n = 0
  for (int i = 1; i < order_; ++i) outer = outer * relu(u);
  return outer.unsqueeze(2) * G().unsqueeze(0);
}

Tensor ArcCosineFeatures::weights(const Tensor& W, const Tensor& b) const {
  return phi(project_weights(W, b), {}).value();
}

}  // namespace bochner
