#include "experiments/learners/sequence/learner.h"

#include <algorithm>
#include <map>

#include "autograd/fused/cross_entropy.h"
#include "datasets/baselines.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/sort.h"

namespace bochner::sequence {
namespace {

// Streams that the seed of a run is split into.
constexpr uint64_t kInitStream = 1;
constexpr uint64_t kNoiseStream = 2;
constexpr uint64_t kOrderStream = 3;
constexpr uint64_t kEvaluationStream = 4;

/// The number of right guesses: one f64, on the device of the logits.
Tensor correct(const Tensor& logits, const Tensor& labels) {
  return sum(equal(argmax(logits, 1), labels).cast(DType::f64));
}

std::vector<Parameter*> parameters_on(Device device, Module& model) {
  model.to(device, DType::f32);
  return model.parameters();
}

SequenceClassifier make_model(const EncoderOptions& options, uint64_t seed) {
  Generator init = Generator(seed).fork(kInitStream);
  return {options, init};
}

constexpr const char* kOptimizerPrefix = "optimizer.";

}  // namespace

Learner::Learner(const RunOptions& run, const EncoderOptions& model, const OptimConfig& optim, const TaskData& data)
    : data_(data),
      optim_(optim),
      device_(Device::named(run.device)),
      seed_(run.seed),
      batch_size_(run.batch),
      model_(make_model(model, run.seed)),
      noise_(Generator(run.seed).fork(kNoiseStream)),
      parameters_(parameters_on(device_, model_)),
      parameter_count_(model_.parameter_count()),
      optimizer_(parameters_, {optim.beta1, optim.beta2, optim.eps, optim.weight_decay}),
      schedule_(optim.schedule_of(run.steps)),
      loader_(data.train, loader_options(true)),
      place_(device_, run.batch, run.batch * data.task.max_length),
      loss_(Tensor::zeros({}, DType::f64, device_)),
      correct_(Tensor::zeros({}, DType::f64, device_)),
      loss_sum_(Tensor::zeros({}, DType::f64, device_)),
      replays_(run.graphs),
      graph_(device_, noise_) {}

LoaderOptions Learner::loader_options(bool shuffle) const {
  LoaderOptions options;
  options.batch_size = batch_size_;
  options.max_length = data_.task.max_length;
  options.pad_to_max = model_.options().pooling == EncoderOptions::Pooling::mean_padded;
  options.shuffle = shuffle;
  options.drop_last = shuffle;
  options.seed = Generator(seed_).fork(kOrderStream).seed();
  return options;
}

Batch Learner::first(const std::shared_ptr<const Dataset>& dataset, int64_t count) const {
  LoaderOptions options = loader_options(false);
  options.batch_size = count;
  options.prefetch = 0;
  return Loader(dataset, options).next().to(device_);
}

Generator Learner::evaluation_noise() const { return Generator(seed_).fork(kEvaluationStream); }

StepResult Learner::step(int64_t step) {
  batch_ = loader_.next();
  const Batch batch = place_.put(batch_);
  if (optim_.cycle_beta1) optimizer_.set_beta1(one_cycle_beta1(schedule_, step));
  optimizer_.prepare(schedule_.rate(step));
  if (replays_) {
    graph_.run(batch.ids.shape().str(), [&] { update(batch, step); });
  } else {
    update(batch, step);
  }
  return {loss_.clone(), correct_.clone(), batch_.size()};
}

void Learner::update(const Batch& batch, int64_t step) {
  Context context{noise_, true, step};
  {
    Tape tape;
    const Variable logits = model_.forward(batch.ids, batch.mask, context);
    const Variable loss = cross_entropy(logits, batch.labels);
    loss_.copy_(loss.value());
    correct_.copy_(correct(logits.value(), batch.labels));
    tape.backward(loss);
  }
  add_(loss_sum_, loss_);
  GradientClip clip = optim_.clip_norm > 0 ? clip_by_norm(parameters_, optim_.clip_norm) : GradientClip{};
  if (optim_.clip_value > 0) clip.limit = optim_.clip_value;
  clip.guard = loss_sum_;
  optimizer_.apply(clip);
  optimizer_.clear_gradients();
}

Blame Learner::blame(int64_t step) {
  const LoaderPosition position{step / loader_.steps_per_epoch(), step % loader_.steps_per_epoch()};
  if (!(batch_.position == position)) {  // a card is some steps ahead
    loader_.restore(position);
    batch_ = loader_.next();
  }
  const Batch batch = place_.put(batch_);
  Blame blame{.examples = batch_.examples};
  try {
    Tape tape({.check_finite = true});
    Context context{noise_, true, step};
    model_.forward(batch.ids, batch.mask, context);
  } catch (const Error& error) {
    blame.layer = error.what();
  }
  return blame;
}

Metrics Learner::evaluate(Split split) {
  const std::shared_ptr<const Dataset>& dataset = split == Split::valid ? data_.valid : data_.test;
  Loader loader(dataset, loader_options(false));
  Generator noise = evaluation_noise();
  Context context{noise, false};
  double loss = 0;
  int64_t right = 0;
  int64_t measured = 0;
  for (int64_t i = 0; i < loader.steps_per_epoch(); ++i) {
    const Batch batch = loader.next().to(device_);
    const Variable logits = model_.forward(batch.ids, batch.mask, context);
    loss += cross_entropy(logits, batch.labels).item() * static_cast<double>(batch.size());
    right += static_cast<int64_t>(correct(logits.value(), batch.labels).item());
    measured += batch.size();
    evaluated(measured, dataset->size());
  }
  const auto size = static_cast<double>(dataset->size());
  return {{"loss", loss / size}, {"accuracy", static_cast<double>(right) / size}};
}

std::vector<Baseline> Learner::baselines() {
  return {{"majority class", {{"accuracy", majority_accuracy(*data_.train, *data_.test)}}}};
}

Metrics Learner::extra() { return {{"rate", schedule_.rate(std::max<int64_t>(0, optimizer_.steps() - 1))}}; }

void Learner::save_model(State& state) {
  for (const auto& [name, tensor] : model_.state()) state.tensors[name] = tensor;
}

void Learner::load_model(const State& state) {
  for (const auto& [name, tensor] : model_.state()) state.copy_to(name, tensor);
}

void Learner::save_training(State& state) {
  for (const auto& [name, tensor] : optimizer_.state()) state.tensors[kOptimizerPrefix + name] = tensor;
  state.set("noise", noise_);
  state.set("epoch", loader_.position().epoch);
  state.set("batch", loader_.position().step);
}

void Learner::load_training(const State& state) {
  std::map<std::string, Tensor> moments;
  const std::string prefix = kOptimizerPrefix;
  for (const auto& [name, tensor] : state.tensors) {
    if (name.starts_with(prefix)) moments[name.substr(prefix.size())] = tensor;
  }
  optimizer_.load_state(moments);
  noise_ = state.generator("noise");
  loader_.restore({state.integer("epoch"), state.integer("batch")});
}

}  // namespace bochner::sequence
