#include "experiments/learners/rows/learner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/fused/cross_entropy.h"
#include "engine/ops/sort.h"

namespace bochner::classifier {
namespace {

// Streams that the seed of a run is split into.
constexpr uint64_t kInitStream = 1;
constexpr uint64_t kNoiseStream = 2;
constexpr uint64_t kOrderStream = 3;

constexpr int64_t kEvaluationRows = 4096;

int64_t correct(const Tensor& logits, const Tensor& labels) {
  const std::vector<int64_t> guesses = argmax(logits, 1).to_vector<int64_t>();
  const std::vector<int64_t> truths = labels.to_vector<int64_t>();
  int64_t count = 0;
  for (size_t i = 0; i < truths.size(); ++i) count += guesses[i] == truths[i] ? 1 : 0;
  return count;
}

Mlp make_model(const RunOptions& run, const ModelConfig& model, const TableSplits& data) {
  Generator init = Generator(run.seed).fork(kInitStream);
  return {Slot{}, mlp_options(model, run.attention, data.train.features.size(1), data.classes), init};
}

}  // namespace

double area_under_curve(const std::vector<double>& scores, const std::vector<int64_t>& labels) {
  const auto unordered = [](double score) { return std::isnan(score); };
  if (std::any_of(scores.begin(), scores.end(), unordered)) return std::nan("");
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double ranks = 0;  // of class 1, equal scores sharing their mean rank
  double ones = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    double here = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) here += labels[order[end]] == 1;
    ranks += here * (static_cast<double>(begin + end) + 1) / 2;
    ones += here;
    begin = end;
  }
  const double zeros = static_cast<double>(scores.size()) - ones;
  return ones == 0 || zeros == 0 ? 0.5 : (ranks - ones * (ones + 1) / 2) / (ones * zeros);
}

Learner::Learner(const RunOptions& run, const ModelConfig& model, const OptimConfig& optim, const TableSplits& data)
    : data_(data),
      noise_(Generator(run.seed).fork(kNoiseStream)),
      model_(make_model(run, model, data)),
      has_snnk_(run.attention != "linear"),
      parameters_(model_.parameters()),
      parameter_count_(model_.parameter_count()),
      optimizer_(parameters_, model_.snnk_weights(), optim),
      schedule_{Schedule::named(optim.schedule), optim.rate, optim.warmup, run.steps},
      loader_(data.train, run.batch, Generator(run.seed).fork(kOrderStream).seed()) {}

StepResult Learner::step(int64_t step) {
  batch_ = loader_.next();
  Context context{noise_, true};
  StepResult result;
  result.count = batch_.x.size(0);
  {
    Tape tape;
    const Variable logits = model_.forward(batch_.x, context);
    const Variable loss = cross_entropy(logits, batch_.labels);
    result.loss = loss.value();
    if (!std::isfinite(loss.item())) return result;  // the trainer stops; parameters stay as they were
    result.correct = Tensor::scalar(static_cast<double>(correct(logits.value(), batch_.labels)), DType::f64);
    tape.backward(loss);
  }
  optimizer_.step(schedule_.rate(step));
  optimizer_.clear_gradients();
  return result;
}

Blame Learner::blame(int64_t) {
  Blame blame{.examples = batch_.rows};
  try {
    Tape tape({.check_finite = true});
    Context context{noise_, true};
    model_.forward(batch_.x, context);
  } catch (const Error& error) {
    blame.layer = error.what();
  }
  return blame;
}

Metrics Learner::evaluate(Split split) {
  const TableSplit& rows = split == Split::valid ? data_.valid : data_.test;
  const std::unique_ptr<Bundle> bundle = split == Split::test && has_snnk_ ? model_.bundle() : nullptr;
  TableLoader loader(rows, kEvaluationRows, 0, false);
  Generator unused(0);
  Context context{unused, false};
  double loss = 0;
  int64_t right = 0;
  int64_t right_bundled = 0;
  int64_t measured = 0;
  std::vector<double> scores;
  for (int64_t i = loader.steps_per_epoch(); i > 0; --i) {
    const TableBatch batch = loader.next();
    const Tensor logits = model_.forward(batch.x, context).value();
    loss += cross_entropy(Variable(logits), batch.labels).item() * static_cast<double>(batch.x.size(0));
    right += correct(logits, batch.labels);
    if (bundle) right_bundled += correct(model_.forward_bundled(batch.x, *bundle).value(), batch.labels);
    if (data_.classes == 2) {
      const std::vector<double> pairs = logits.to_vector<double>();
      for (size_t k = 0; k < pairs.size(); k += 2) scores.push_back(pairs[k + 1] - pairs[k]);
    }
    measured += batch.x.size(0);
    evaluated(measured, rows.rows());
  }
  const auto size = static_cast<double>(rows.rows());
  Metrics metrics = {{"loss", loss / size}, {"accuracy", static_cast<double>(right) / size}};
  if (data_.classes == 2) metrics.emplace_back("auc", area_under_curve(scores, rows.labels.to_vector<int64_t>()));
  if (split == Split::valid) return metrics;
  metrics.emplace_back("flops", static_cast<double>(model_.flops()));
  double bytes = 0;
  for (const auto& [name, tensor] : model_.state()) {
    bytes += static_cast<double>(tensor.size()) * static_cast<double>(size_of(tensor.dtype()));
  }
  metrics.emplace_back("bytes", bytes);
  if (bundle) {
    metrics.emplace_back("flops-bundled", static_cast<double>(model_.flops_bundled(*bundle)));
    metrics.emplace_back("bytes-bundled", static_cast<double>(model_.bytes_bundled(*bundle)));
    metrics.emplace_back("accuracy-bundled", static_cast<double>(right_bundled) / size);
  }
  return metrics;
}

std::vector<Baseline> Learner::baselines() {
  std::vector<int64_t> counts(static_cast<size_t>(data_.classes));
  for (const int64_t label : data_.train.labels.to_vector<int64_t>()) ++counts[static_cast<size_t>(label)];
  const auto majority = std::max_element(counts.begin(), counts.end()) - counts.begin();
  int64_t right = 0;
  for (const int64_t label : data_.test.labels.to_vector<int64_t>()) right += label == majority ? 1 : 0;
  return {{"majority class", {{"accuracy", static_cast<double>(right) / static_cast<double>(data_.test.rows())}}}};
}

Metrics Learner::extra() { return {{"rate", schedule_.rate(std::max<int64_t>(0, optimizer_.steps() - 1))}}; }

void Learner::save_model(State& state) {
  for (const auto& [name, tensor] : model_.state()) state.tensors[name] = tensor;
}

void Learner::load_model(const State& state) {
  for (const auto& [name, tensor] : model_.state()) state.copy_to(name, tensor);
}

void Learner::save_training(State& state) {
  optimizer_.save(state);
  state.set("noise", noise_);
  state.set("epoch", loader_.position().epoch);
  state.set("batch", loader_.position().step);
}

void Learner::load_training(const State& state) {
  optimizer_.load(state);
  noise_ = state.generator("noise");
  loader_.restore({state.integer("epoch"), state.integer("batch")});
}

}  // namespace bochner::classifier
