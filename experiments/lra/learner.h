// A sequence classifier in training: the model, its optimizer, its noise and its place in the data.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "autograd/optim/optimizer.h"
#include "datasets/loader.h"
#include "datasets/task.h"
#include "experiments/lra/config.h"
#include "layers/models/encoder.h"

namespace bochner::lra {

struct Score {
  double loss = 0;       ///< mean cross-entropy
  double accuracy = 0;   ///< in [0, 1]
};

class Learner {
 public:
  Learner(const Config& config, const TaskData& data);

  /// One step on the next batch. A loss that is not finite is a RunFailure that names step, batch and the first module at fault; the
  /// parameters are those from before it.
  Score step();
  /// Over a whole data set, without dropout. Noise of random features comes from a generator of its own, the same each time.
  Score evaluate(const std::shared_ptr<const Dataset>& dataset);

  int64_t steps() const { return optimizer_.steps(); }
  int64_t parameter_count() { return model_.parameter_count(); }
  /// Everything that a continued run needs, bit for bit: parameters, moments, steps, generator, place in the data.
  std::map<std::string, Tensor> state();
  void load_state(const std::map<std::string, Tensor>& state);
  /// The parameters alone, as a deployed model needs them.
  void load_model(const std::map<std::string, Tensor>& state);

 private:
  void explain_failure(const Batch& batch, double loss);

  const Config& config_;
  Generator noise_;
  SequenceClassifier model_;
  std::vector<Parameter*> parameters_;
  AdamW optimizer_;
  Schedule schedule_;
  Loader loader_;
};

}  // namespace bochner::lra
