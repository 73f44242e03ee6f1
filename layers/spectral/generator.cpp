#include "layers/spectral/generator.h"

#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"

namespace bochner {

GeneratedFrequencies::GeneratedFrequencies(Slot slot, int64_t features, int64_t dim, const GeneratorOptions& options,
                                           RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), {"generated frequencies", features, dim}, schedule),
      noise_dim_(options.noise_dim > 0 ? options.noise_dim : dim) {
  if (features < 2) fail("generated frequencies: {} features; BatchNorm needs at least 2 samples", features);
  const std::vector<int64_t> hidden = options.hidden.empty() ? std::vector<int64_t>(4, dim) : options.hidden;
  int64_t inputs = noise_dim_;
  for (size_t i = 0; i < hidden.size(); ++i) {
    const std::string at = std::to_string(i);
    layers_.emplace_back(sub("layers." + at), inputs, hidden[i], init, options.linear);
    norms_.emplace_back(sub("norms." + at), hidden[i]);
    inputs = hidden[i];
  }
  layers_.emplace_back(sub("layers." + std::to_string(hidden.size())), inputs, dim, init, options.linear);
  start(init);
}

Tensor GeneratedFrequencies::draw(Generator& generator) { return normal({features_, noise_dim_}, generator); }

VariableFrequencies GeneratedFrequencies::transform(const Tensor& noise, bool training) {
  Variable x = noise;  // (M, noise_dim)
  for (size_t i = 0; i < norms_.size(); ++i) x = leaky_relu(norms_[i].forward(layers_[i].forward(x), training), 0.01);
  return unsqueeze(tanh(layers_.back().forward(x)), 0);  // (1, M, dim)
}

}  // namespace bochner
