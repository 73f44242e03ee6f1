#include "experiments/lra/learner.h"

#include <cmath>

#include "autograd/fused/cross_entropy.h"
#include "engine/ops/sort.h"
#include "experiments/common/interrupt.h"

namespace bochner::lra {
namespace {

// Streams that the seed of a run is split into.
constexpr uint64_t kInitStream = 1;
constexpr uint64_t kNoiseStream = 2;
constexpr uint64_t kOrderStream = 3;
constexpr uint64_t kEvaluationStream = 4;

constexpr const char* kModelPrefix = "model.";
constexpr const char* kOptimizerPrefix = "optimizer.";

SequenceClassifier make_model(const Config& config, const TaskData& data) {
  Generator init = Generator(config.run.seed).fork(kInitStream);
  return SequenceClassifier(config.encoder_options(data.task), init);
}

LoaderOptions loader_options(const Config& config, bool shuffle) {
  LoaderOptions options;
  options.batch_size = config.run.batch;
  options.max_length = config.task.max_length;
  options.pad_to_max = config.model.pooling == "mean-padded";
  options.shuffle = shuffle;
  options.drop_last = shuffle;
  options.seed = Generator(config.run.seed).fork(kOrderStream).seed();
  return options;
}

int64_t correct(const Tensor& logits, const Tensor& labels) {
  const std::vector<int64_t> guesses = argmax(logits, 1).to_vector<int64_t>();
  const std::vector<int64_t> truths = labels.to_vector<int64_t>();
  int64_t count = 0;
  for (size_t i = 0; i < truths.size(); ++i) count += guesses[i] == truths[i] ? 1 : 0;
  return count;
}

std::map<std::string, Tensor> with_prefix(const std::map<std::string, Tensor>& state, const std::string& prefix) {
  std::map<std::string, Tensor> part;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(prefix)) part[name.substr(prefix.size())] = tensor;
  }
  return part;
}

}  // namespace

Learner::Learner(const Config& config, const TaskData& data)
    : config_(config),
      noise_(Generator(config.run.seed).fork(kNoiseStream)),
      model_(make_model(config, data)),
      parameters_(model_.parameters()),
      optimizer_(parameters_, {config.optim.beta1, config.optim.beta2, config.optim.eps, config.optim.weight_decay}),
      schedule_(config.schedule()),
      loader_(data.train, loader_options(config, true)) {}

Score Learner::step() {
  const Batch batch = loader_.next();
  Context context{noise_, true};
  Score score;
  {
    Tape tape;
    const Variable logits = model_.forward(batch.ids, batch.mask, context);
    const Variable loss = cross_entropy(logits, batch.labels);
    score.loss = loss.item();
    if (!std::isfinite(score.loss)) explain_failure(batch, score.loss);
    score.accuracy = static_cast<double>(correct(logits.value(), batch.labels)) / static_cast<double>(batch.size());
    tape.backward(loss);
  }
  if (config_.optim.clip_norm > 0) clip_gradient_norm(parameters_, config_.optim.clip_norm);
  if (config_.optim.clip_value > 0) clip_gradient_value(parameters_, config_.optim.clip_value);
  optimizer_.step(schedule_.rate(steps()));
  optimizer_.clear_gradients();
  return score;
}

void Learner::explain_failure(const Batch& batch, double loss) {
  std::string cause = "no layer's output is NaN or Inf when the step is run again";
  try {
    Tape tape({.check_finite = true});
    Context context{noise_, true};
    model_.forward(batch.ids, batch.mask, context);
  } catch (const Error& error) {
    cause = error.what();
  }
  std::string examples;
  for (size_t i = 0; i < std::min<size_t>(batch.examples.size(), 8); ++i) {
    examples += (i == 0 ? "" : ", ") + std::to_string(batch.examples[i]);
  }
  throw RunFailure(fmt::format("the loss is {} at step {}, on the batch of examples {}{}; {}; the last checkpoint is intact", loss,
                               steps() + 1, examples, batch.examples.size() > 8 ? ", ..." : "", cause));
}

Score Learner::evaluate(const std::shared_ptr<const Dataset>& dataset) {
  Loader loader(dataset, loader_options(config_, false));
  Generator noise = Generator(config_.run.seed).fork(kEvaluationStream);
  Context context{noise, false};
  Score total;
  for (int64_t i = 0; i < loader.steps_per_epoch(); ++i) {
    const Batch batch = loader.next();
    const Variable logits = model_.forward(batch.ids, batch.mask, context);
    total.loss += cross_entropy(logits, batch.labels).item() * static_cast<double>(batch.size());
    total.accuracy += static_cast<double>(correct(logits.value(), batch.labels));
  }
  const auto size = static_cast<double>(dataset->size());
  return {total.loss / size, total.accuracy / size};
}

std::map<std::string, Tensor> Learner::state() {
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : model_.state()) state[kModelPrefix + name] = tensor;
  for (const auto& [name, tensor] : optimizer_.state()) state[kOptimizerPrefix + name] = tensor;
  const LoaderPosition place = loader_.position();
  state["run.place"] =
      Tensor::from<int64_t>({static_cast<int64_t>(noise_.seed()), static_cast<int64_t>(noise_.offset()), place.epoch, place.step}, {4});
  return state;
}

void Learner::load_model(const std::map<std::string, Tensor>& state) { model_.load_state(with_prefix(state, kModelPrefix)); }

void Learner::load_state(const std::map<std::string, Tensor>& state) {
  const auto place = state.find("run.place");
  if (place == state.end() || place->second.size() != 4 || place->second.dtype() != DType::i64) {
    fail("checkpoint: tensor 'run.place' is missing or damaged; is this a checkpoint of lra?");
  }
  load_model(state);
  optimizer_.load_state(with_prefix(state, kOptimizerPrefix));
  const std::vector<int64_t> words = place->second.to_vector<int64_t>();
  noise_ = Generator(static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1]));
  loader_.restore({words[2], words[3]});
}

}  // namespace bochner::lra
