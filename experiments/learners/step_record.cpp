#include "experiments/learners/step_record.h"

#include <fmt/format.h>

namespace bochner {

TensorMap recorded_steps(Learner& learner, Module& model, Feed& again, int64_t steps) {
  TensorMap record;
  for (const auto& [name, tensor] : model.state()) record["weights." + name] = tensor.to(Device::cpu()).clone();
  std::vector<double> losses;
  std::vector<int64_t> noise;
  for (int64_t step = 0; step < steps; ++step) {
    for (const auto& [name, tensor] : again.next().tensors) {
      if (tensor.defined()) record[fmt::format("step.{}.{}", step, name)] = tensor;
    }
    State before;
    learner.save_training(before);
    const Generator generator = before.generator("noise");
    noise.insert(noise.end(), {static_cast<int64_t>(generator.seed()), static_cast<int64_t>(generator.offset())});
    losses.push_back(learner.step(step).loss.item());
  }
  record["losses"] = Tensor::from(losses, {steps});
  record["noise"] = Tensor::from(noise, {steps, 2});
  return record;
}

}  // namespace bochner
