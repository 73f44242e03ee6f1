#include "experiments/learners/objective.h"

#include <algorithm>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "engine/error.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"
#include "engine/ops/sort.h"

namespace bochner {
namespace {

const Tensor& scores_of(const Outputs& outputs) {
  BOCHNER_ASSERT(!outputs.empty() && outputs[0].value().rank() >= 2);
  return outputs[0].value();
}

Tensor guesses_of(const Outputs& outputs) {
  const Tensor& scores = scores_of(outputs);
  return argmax(scores, scores.rank() - 1);
}

}  // namespace

Variable Classification::loss(const Outputs& outputs, const Examples& examples) const {
  return cross_entropy(outputs[0], examples.at(labels_), {.ignore = kNoLabel});
}

Tensor Classification::terms(const Examples& examples) const {
  const Tensor& labels = examples.at(labels_);
  const Tensor none = equal(labels, static_cast<double>(kNoLabel));
  return Tensor::scalar(static_cast<double>(labels.size()), DType::f64, labels.device()) - sum(none.cast(DType::f64));
}

Tensor Classification::correct(const Outputs& outputs, const Examples& examples) const {
  return sum(equal(guesses_of(outputs), examples.at(labels_)).cast(DType::f64));
}

int64_t Classification::judged(const Examples& examples) const {
  const Tensor& labels = examples.at(labels_);
  const auto* const begin = labels.data<int64_t>();
  return labels.size() - std::count(begin, begin + labels.size(), kNoLabel);
}

void Classification::collect(const Outputs& outputs, const Examples& examples, Answers& to) const {
  const std::vector<int64_t> guesses = guesses_of(outputs).to_vector<int64_t>();
  const std::vector<int64_t> labels = examples.at(labels_).to_vector<int64_t>();
  const Tensor& scores = scores_of(outputs);
  const bool two = scores.size(scores.rank() - 1) == 2;
  const std::vector<double> pairs = two ? scores.to_vector<double>() : std::vector<double>();
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kNoLabel) continue;
    to.guesses.push_back(guesses[i]);
    to.labels.push_back(labels[i]);
    if (two) to.values.push_back(pairs[2 * i + 1] - pairs[2 * i]);
  }
}

std::vector<Prediction> Classification::predictions(const Outputs& outputs, const Examples&) const {
  const Tensor& scores = scores_of(outputs);
  const std::vector<int64_t> guesses = guesses_of(outputs).to_vector<int64_t>();
  const auto examples = static_cast<size_t>(scores.size(0));
  std::vector<Prediction> all(examples);
  if (scores.rank() > 2) {
    const size_t tokens = guesses.size() / examples;
    for (size_t i = 0; i < guesses.size(); ++i) {
      std::string& answer = all[i / tokens].answer;
      answer += (answer.empty() ? "" : " ") + std::to_string(guesses[i]);
    }
    return all;
  }
  for (size_t i = 0; i < examples; ++i) {
    all[i].answer = names_.empty() ? std::to_string(guesses[i]) : names_.at(static_cast<size_t>(guesses[i]));
  }
  if (tells_ == Tells::class_alone) return all;
  const std::vector<double> probabilities = softmax(scores.cast(DType::f64), 1).to_vector<double>();
  const auto classes = static_cast<std::ptrdiff_t>(scores.size(1));
  for (size_t i = 0; i < examples; ++i) {
    const auto row = probabilities.begin() + static_cast<std::ptrdiff_t>(i) * classes;
    all[i].numbers.assign(row, row + classes);
  }
  return all;
}

Variable Regression::loss(const Outputs& outputs, const Examples& examples) const {
  const Tensor& values = examples.at(values_);
  return mean(square(outputs[0] - Variable(values.reshape(outputs[0].shape()))));
}

Tensor Regression::terms(const Examples& examples) const {
  const Tensor& values = examples.at(values_);
  return Tensor::scalar(static_cast<double>(values.size()), DType::f64, values.device());
}

void Regression::collect(const Outputs& outputs, const Examples& examples, Answers& to) const {
  for (const double value : outputs[0].value().to_vector<double>()) to.values.push_back(value);
  for (const double truth : examples.at(values_).to_vector<double>()) to.truths.push_back(truth);
}

std::vector<Prediction> Regression::predictions(const Outputs& outputs, const Examples&) const {
  std::vector<Prediction> all;
  for (const double value : outputs[0].value().to_vector<double>()) all.push_back({fmt::format("{}", value), {}});
  return all;
}

}  // namespace bochner
