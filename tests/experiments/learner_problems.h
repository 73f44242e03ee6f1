// Small problems of every shape, for tests of the Learner: classes of texts, pairs, one label per token, numbers.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "experiments/learners/rows/problem.h"
#include "experiments/learners/sequence/problem.h"
#include "layers/embedding.h"
#include "layers/linear.h"

namespace bochner::test {

inline constexpr int64_t kVocabulary = 7;

inline RunOptions options_of(int64_t batch, int64_t accumulate = 1) {
  RunOptions run;
  run.steps = 100;
  run.batch = batch;
  run.accumulate = accumulate;
  return run;
}

/// Texts of 3 to 8 random tokens; the class of an example is 1 if its texts begin with the same token.
inline std::shared_ptr<const Dataset> texts(int64_t examples, int sequences, uint64_t seed) {
  Generator generator(seed);
  std::vector<uint8_t> tokens;
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < examples; ++i) {
    std::vector<int64_t> firsts;
    for (int s = 0; s < sequences; ++s) {
      firsts.push_back(1 + generator.below(2));
      const int64_t length = 3 + generator.below(6);
      for (int64_t k = 0; k < length; ++k) {
        tokens.push_back(static_cast<uint8_t>(k == 0 ? firsts.back() : 3 + generator.below(kVocabulary - 3)));
      }
      offsets.push_back(static_cast<int64_t>(tokens.size()));
    }
    labels.push_back(firsts.front() == firsts.back() ? 1 : 0);
    if (sequences == 1) labels.back() = static_cast<int32_t>(firsts[0] - 1);
  }
  return std::make_shared<PackedDataset<uint8_t>>("texts", tokens, offsets, labels, sequences);
}

inline TaskData task_of(int sequences) {
  TaskData data;
  data.task = {"texts", 2, kVocabulary, 8, sequences};
  data.train = texts(64, sequences, 1);
  data.valid = texts(40, sequences, 2);
  data.test = texts(40, sequences, 3);
  return data;
}

inline EncoderOptions encoder(const std::string& attention) {
  EncoderOptions options{.vocabulary = kVocabulary, .length = 8, .classes = 2, .layers = 1, .dim = 8, .hidden = 8};
  options.attention.mechanism = MechanismOptions(attention).set_known({{"features", 4}, {"redraw", 2}});
  options.attention.heads = 2;
  options.dropout = 0;
  return options;
}

inline TaskEntry<TaskData> judged_by_accuracy() {
  TaskEntry<TaskData> task;
  task.metrics = {"accuracy"};
  return task;
}

inline OptimConfig adamw(double rate = 1e-3) {
  OptimConfig optim;
  optim.rate = rate;
  return optim;
}

inline std::map<std::string, std::vector<double>> weights_of(Learner& learner) {
  State state;
  learner.save_model(state);
  std::map<std::string, std::vector<double>> values;
  for (const auto& [name, tensor] : state.tensors) values[name] = tensor.to_vector<double>();
  return values;
}

/// The largest difference between two models' weights.
inline double apart(Learner& a, Learner& b) {
  const auto left = weights_of(a);
  const auto right = weights_of(b);
  double most = 0;
  for (const auto& [name, values] : left) {
    for (size_t i = 0; i < values.size(); ++i) most = std::max(most, std::abs(values[i] - right.at(name)[i]));
  }
  return most;
}

/// A label for each token that is `asked`, namely the previous token; their number differs from example to example.
class TokenLabels final : public LoaderFeed {
 public:
  TokenLabels(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, int64_t asked)
      : LoaderFeed(std::move(dataset), options), asked_(asked) {}

 private:
  Examples examples_of(Batch batch) override {
    const Tensor ids = batch.ids;
    const Tensor labels = Tensor::full(ids.shape(), static_cast<double>(kNoLabel), DType::i64);
    const auto* const id = ids.data<int64_t>();
    for (int64_t i = 1; i < ids.size(); ++i) {
      if (i % ids.size(1) != 0 && id[i] == asked_) labels.data<int64_t>()[i] = id[i - 1];
    }
    return {{{"ids", ids}, {"labels", labels}}, std::move(batch.examples)};
  }

  int64_t asked_;
};

/// Scores of each token from itself and the previous one: (n, length, vocabulary).
class Bigrams final : public Module {
 public:
  explicit Bigrams(Generator& init)
      : tokens_(sub("tokens"), kVocabulary, 6, 0.5, init), out_(sub("out"), 12, kVocabulary, init) {}
  Variable forward(const Tensor& ids) const {
    const Variable x = tokens_.forward(ids);
    const int64_t length = x.size(1);
    const Variable before = concat({slice(x, 1, 0, 1), slice(x, 1, 0, length - 1)}, 1);
    return out_.forward(concat({x, before}, 2));
  }

 private:
  Embedding tokens_;
  Linear out_;
};

inline Problem of_tokens(const RunOptions& run) {
  const TaskData data = task_of(1);
  Generator init = stream_of(run.seed, Stream::init);
  const auto model = std::make_shared<Bigrams>(init);
  Problem problem;
  problem.model = model;
  problem.forward = [model](const Examples& examples, Context&) -> Outputs {
    return {model->forward(examples.at("ids"))};
  };
  problem.objective = std::make_shared<Classification>();
  problem.train = std::make_unique<TokenLabels>(data.train, LoaderOptions{.batch_size = run.batch, .seed = 5}, 4);
  problem.split = [data, run](Split) {
    return std::make_unique<TokenLabels>(data.test, LoaderOptions{.batch_size = 16, .shuffle = false}, 4);
  };
  problem.metrics = metrics_named({"loss", "accuracy"});
  return problem;
}

/// y = 2 x_0 - x_1 + 3 for rows x.
inline TableSplit line(int64_t rows, uint64_t seed) {
  Generator generator(seed);
  TableSplit split;
  split.features = normal({rows, 2}, generator);
  split.labels = Tensor::empty({rows});
  for (int64_t i = 0; i < rows; ++i) {
    const float* const x = split.features.data<float>() + 2 * i;
    split.labels.data<float>()[i] = 2 * x[0] - x[1] + 3;
  }
  return split;
}

/// Regression on `rows`, which must outlive it.
inline Problem of_numbers(const RunOptions& run, const TableSplit& rows) {
  Generator init = stream_of(run.seed, Stream::init);
  const auto model = std::make_shared<Linear>(Slot{}, 2, 1, init);
  Problem problem;
  problem.model = model;
  problem.forward = [model](const Examples& examples, Context&) -> Outputs {
    return {model->forward(examples.at("x"))};
  };
  problem.objective = std::make_shared<Regression>("labels");
  problem.train = std::make_unique<rows::RowFeed>(rows, run.batch, 5, true);
  problem.split = [&rows](Split) { return std::make_unique<rows::RowFeed>(rows, 16, 0, false); };
  problem.metrics = metrics_named({"loss", "pearson", "spearman"});
  return problem;
}

inline double metric(Learner& learner, const std::string& name) {
  return *find_metric(learner.evaluate(Split::test), name);
}

}  // namespace bochner::test
