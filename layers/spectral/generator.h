// A neural network that turns noise into frequencies: an implicit, learnable spectral distribution (KL Eqs. 7, 8, 11).
#pragma once

#include <deque>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/linear.h"
#include "layers/spectral/distribution.h"

namespace bochner {

/// omega_m = g(n_m), n_m ~ N(0, I): hidden layers of Linear, BatchNorm over the M samples and LeakyReLU, then Linear
/// and tanh, so omega lies in (-1, 1)^dim. Shared by the heads of a layer.
struct GeneratorOptions {
  int64_t noise_dim = 0;             ///< of n_m; 0: dim
  std::vector<int64_t> hidden = {};  ///< sizes of the hidden layers; empty: four of size dim (KL §2.1)
  LinearOptions linear = {};
};

class GeneratedFrequencies : public SpectralDistribution {
 public:
  GeneratedFrequencies(Slot slot, int64_t features, int64_t dim, const GeneratorOptions& options,
                       RedrawSchedule schedule, Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  VariableFrequencies transform(const Tensor& noise, bool training) override;

 private:
  int64_t noise_dim_;
  std::deque<Linear> layers_;
  std::deque<BatchNorm1d> norms_;  ///< over the samples of each hidden layer's output
};

}  // namespace bochner
