#include "layers/spectral/fastfood.h"

#include <cmath>

#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/math.h"
#include "engine/ops/join.h"
#include "layers/init.h"

namespace bochner {

FastFoodFrequencies::FastFoodFrequencies(Slot slot, int64_t features, int64_t dim, FastFoodOptions options,
                                         RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), {"fastfood", features, dim}, schedule),
      size_(next_power_of_two(dim)),
      blocks_(ceil_div(features, size_)),
      options_(options) {
  if (!(options.sigma > 0)) fail("fastfood: sigma {} must be positive", options.sigma);
  start(init);
  const Tensor first = draw(init);  // (blocks, 4, P)
  const auto learnable = [&](const char* name, int64_t row) {
    const double deviation = 1 / std::sqrt(static_cast<double>(size_));
    return &parameter(name, options.released_init ? bochner::init::gaussian({blocks_, size_}, deviation, init)
                                                  : first.select(1, row).clone());
  };
  if (options.learn != FastFoodOptions::Learn::none) S_ = learnable("S", 0);
  if (options.learn == FastFoodOptions::Learn::sgb) {
    G_ = learnable("G", 1);
    B_ = learnable("B", 2);
  }
}

Tensor FastFoodFrequencies::draw(Generator& generator) {
  const auto P = static_cast<size_t>(size_);
  std::vector<float> values(static_cast<size_t>(blocks_) * 4 * P);
  for (size_t block = 0; block < static_cast<size_t>(blocks_); ++block) {
    float* const S = &values[block * 4 * P];
    const std::vector<double> G = normal({size_}, generator, 0, 1, DType::f64).to_vector<double>();
    const std::vector<double> coins = bernoulli({size_}, 0.5, generator, DType::f64).to_vector<double>();
    const std::vector<int64_t> places = bochner::permutation(size_, generator).to_vector<int64_t>();
    const std::vector<double> rows = normal({size_, size_}, generator, 0, 1, DType::f64).to_vector<double>();
    double norm = 0;
    for (const double g : G) norm += g * g;
    // A learnable S holds the lengths of rows, so |G| is the same in each draw, and G gives only directions. KL's code
    // leaves G as it is drawn.
    const bool only_directions = options_.learn == FastFoodOptions::Learn::s && !options_.released_init;
    const double unit = only_directions ? std::sqrt(static_cast<double>(size_) / norm) : 1;
    norm *= unit * unit;
    for (size_t i = 0; i < P; ++i) {
      double chi = 0;
      for (size_t j = 0; j < P; ++j) chi += rows[i * P + j] * rows[i * P + j];
      S[i] = static_cast<float>(std::sqrt(chi / norm));
      S[P + i] = static_cast<float>(G[i] * unit);
      S[2 * P + i] = coins[i] > 0 ? 1.0F : -1.0F;
      S[3 * P + i] = static_cast<float>(places[i]);
    }
  }
  return Tensor::from(values, {blocks_, 4, size_});
}

Variable FastFoodFrequencies::diagonal(Parameter* learnt, const Tensor& noise, int64_t row) const {
  return learnt != nullptr ? Variable(*learnt) : Variable(noise.select(1, row));  // (blocks, P)
}

VariableFrequencies FastFoodFrequencies::transform(const Tensor& noise, bool) {
  const double scale = 1 / (options_.sigma * std::sqrt(static_cast<double>(size_)));
  const Variable SGB = stack({diagonal(S_, noise, 0) * scale, diagonal(G_, noise, 1), diagonal(B_, noise, 2)}, 1);
  const Tensor permutation = noise.select(1, 3).cast(DType::i64).contiguous();  // (blocks, P)
  return {reshape(SGB, {1, 3 * blocks_, size_}), FastFoodRows{permutation, features_}};
}

}  // namespace bochner
