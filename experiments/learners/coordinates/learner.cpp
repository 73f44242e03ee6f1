#include "experiments/learners/coordinates/learner.h"

#include <cmath>

#include "engine/ops/index.h"
#include "engine/ops/join.h"

namespace bochner::fields {
namespace {

// Streams that the seed of a run is split into.
constexpr uint64_t kInitStream = 1;
constexpr uint64_t kDrawStream = 2;

constexpr int64_t kRowsAtOnce = 8192;

}  // namespace

FieldLearner::FieldLearner(const RunOptions& run, const SirenOptions& model, const classifier::OptimConfig& optim,
                           Tensor points)
    : points_(std::move(points)),
      draws_(Generator(run.seed).fork(kDrawStream)),
      init_(Generator(run.seed).fork(kInitStream)),
      batch_(std::min(run.batch, points_.size(0))),
      model_(Slot{}, model, init_),
      parameters_(model_.parameters()),
      optimizer_(parameters_, model_.snnk_weights(), optim),
      schedule_{Schedule::named(optim.schedule), optim.rate, optim.warmup, run.steps},
      rows_(Tensor::arange(points_.size(0))) {}

StepResult FieldLearner::step(int64_t step) {
  if (batch_ < points_.size(0)) rows_ = integers({batch_}, 0, points_.size(0), draws_);
  StepResult result;
  {
    Tape tape;
    const Variable x = batch_ < points_.size(0) ? take(points_, rows_) : points_;
    result.count = x.size(0);
    const Variable value = loss(model_.forward(x), rows_);
    result.loss = value.value();
    if (!std::isfinite(value.item())) return result;  // the trainer stops; parameters stay as they were
    tape.backward(value);
  }
  optimizer_.step(schedule_.rate(step));
  optimizer_.clear_gradients();
  return result;
}

Tensor FieldLearner::values(const Tensor& x) const {
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < x.size(0); begin += kRowsAtOnce) {
    parts.push_back(model_.forward(x.slice(0, begin, std::min(x.size(0), begin + kRowsAtOnce))).value());
    evaluated(std::min(x.size(0), begin + kRowsAtOnce), x.size(0));
  }
  return concat(parts, 0).reshape({x.size(0)});
}

FieldDerivatives FieldLearner::derivatives(const Tensor& x) const {
  std::vector<Tensor> values;
  std::vector<Tensor> gradients;
  std::vector<Tensor> laplacians;
  for (int64_t begin = 0; begin < x.size(0); begin += kRowsAtOnce) {
    const Tensor part = x.slice(0, begin, std::min(x.size(0), begin + kRowsAtOnce)).contiguous();
    const FieldDerivatives found = field_derivatives([&](const Variable& at) { return model_.forward(at); }, part);
    values.push_back(found.value);
    gradients.push_back(found.gradient);
    laplacians.push_back(found.laplacian);
    evaluated(std::min(x.size(0), begin + kRowsAtOnce), x.size(0));
  }
  return {concat(values, 0), concat(gradients, 0), concat(laplacians, 0)};
}

Metrics FieldLearner::extra() { return {{"rate", schedule_.rate(std::max<int64_t>(0, optimizer_.steps() - 1))}}; }

Blame FieldLearner::blame(int64_t) {
  Blame blame{.examples = rows_.to_vector<int64_t>()};
  try {
    Tape tape({.check_finite = true});
    loss(model_.forward(take(points_, rows_)), rows_);
  } catch (const Error& error) {
    blame.layer = error.what();
  }
  return blame;
}

void FieldLearner::save_model(State& state) {
  for (const auto& [name, tensor] : model_.state()) state.tensors[name] = tensor;
}

void FieldLearner::load_model(const State& state) {
  for (const auto& [name, tensor] : model_.state()) state.copy_to(name, tensor);
}

void FieldLearner::save_training(State& state) {
  optimizer_.save(state);
  state.set("draws", draws_);
}

void FieldLearner::load_training(const State& state) {
  optimizer_.load(state);
  draws_ = state.generator("draws");
}

}  // namespace bochner::fields
