#include "layers/snnk/released.h"

#include <cmath>
#include <numbers>

#include "autograd/ops/binary.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

Projection drawn(int64_t inputs, const ReleasedOptions& options, Generator& init) {
  if (!(options.scale > 0)) fail("released features: scale {} must be positive", options.scale);
  return {.G = gaussian_rows(options.features, inputs, options.orthogonal, init) * options.scale,
          .scale = options.scale};
}

}  // namespace

ReleasedFeatures::ReleasedFeatures(Slot slot, int64_t inputs, ReleasedOptions options, Generator& init)
    : TwoTowerFeatures(std::move(slot), drawn(inputs, options, init), true), a_(buffer("a", Tensor::zeros({rows()}))) {
  const std::vector<float> coins = bernoulli({rows()}, 0.5, init).to_vector<float>();
  for (int64_t j = 0; j < rows(); ++j) {
    const double xi = (coins[static_cast<size_t>(j)] > 0 ? 1 : -1) / (2 * std::numbers::pi);
    a_.data<float>()[j] = static_cast<float>(options.map == ReleasedOptions::Map::sine ? std::sin(xi) : std::cos(xi));
  }
}

ReleasedFeatures::ReleasedFeatures(Slot slot, const ReleasedFeatures& other, const Projection& projection)
    : TwoTowerFeatures(std::move(slot), projection, true), a_(buffer("a", other.a_.clone())) {}

std::unique_ptr<TwoTowerFeatures> ReleasedFeatures::after(Slot slot, const Tensor& W, const Tensor& b) const {
  return std::unique_ptr<TwoTowerFeatures>(new ReleasedFeatures(std::move(slot), *this, projection(W, b)));
}

Variable ReleasedFeatures::phi(const Variable& u, const Variable& s) const {
  const Tensor a = a_.cast(u.dtype());
  const Variable exponent = u * Variable(a) - s * Variable(square(a) * 0.5);
  return exp(exponent) * Variable(a / std::sqrt(static_cast<double>(rows())));
}

Tensor ReleasedFeatures::slope(const Tensor& u, const Tensor& s, const Tensor& ds) const {
  const Tensor value = phi(u, s).value();
  const Tensor inner = (a_.unsqueeze(1) * G()).unsqueeze(0) - (square(a_) * 0.5).unsqueeze(1) * ds.unsqueeze(1);
  return value.unsqueeze(2) * inner;
}

Tensor ReleasedFeatures::weights(const Tensor& W, const Tensor& b) const {
  return phi(project_weights(W, b), weight_norms(W)).value();
}

}  // namespace bochner
