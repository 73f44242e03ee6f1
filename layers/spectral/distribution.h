// Distributions of frequencies: by Bochner's theorem each defines a shift-invariant kernel. A kernel attention combines
// one of them with a feature map.
#pragma once

#include <functional>
#include <memory>

#include "autograd/fused/kernel_attention.h"
#include "layers/module.h"

namespace bochner {

/// How often frequencies are redrawn.
struct RedrawSchedule {
  int64_t interval = 100;      ///< training steps (Context::step) between draws; 0: never after the first
  bool in_evaluation = false;  ///< also at every forward pass of an evaluation
  bool each_forward = false;   ///< every forward pass in training counts as a step (KL as released)
};

class SpectralDistribution : public Module {
 public:
  /// What an Error calls the frequencies, their number M and their dimension D.
  struct Sizes {
    const char* name;
    int64_t features;
    int64_t dim;
  };
  /// An Error if there is less than one feature or dimension.
  SpectralDistribution(Slot slot, const Sizes& sizes, RedrawSchedule schedule);

  /// The frequencies, with new noise from the context if the schedule says so, otherwise with the old
  /// noise. Differentiable in the distribution's own parameters.
  VariableFrequencies frequencies(Context& context);
  /// The frequencies of the last draw, transformed as in an evaluation or in a training step; the latter updates
  /// running statistics (generator.h).
  VariableFrequencies current(bool training = false);

 protected:
  /// Noise of the shape this distribution needs; kept as the buffer `noise` until the next draw, so that it is in
  /// checkpoints.
  virtual Tensor draw(Generator& generator) = 0;
  virtual VariableFrequencies transform(const Tensor& noise, bool training) = 0;
  /// The first draw; for constructors, once `draw` may be called.
  void start(Generator& init);
  /// The noise to use now: a new draw if the schedule says so. It is a copy, since the next draw overwrites the buffer.
  Tensor noise(Context& context);
  /// Counts a training step, and draws if it is time.
  void count(const std::function<Tensor()>& drawn);

  int64_t features_;  ///< M
  int64_t dim_;

 private:
  RedrawSchedule schedule_;
  Tensor& noise_;
  Tensor& age_;                           ///< i64 (1): training steps since the last draw
  int64_t step_ = Context::kEachForward;  ///< the step counted last
};

/// Rows iid N(0, I), the spectral measure of the Gaussian kernel exp(-|x - y|^2 / 2); shared by heads.
class GaussianFrequencies : public SpectralDistribution {
 public:
  GaussianFrequencies(Slot slot, int64_t features, int64_t dim, RedrawSchedule schedule, Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  VariableFrequencies transform(const Tensor& noise, bool) override { return noise; }
};

}  // namespace bochner
