#include "experiments/learners/sequence/pretraining.h"

#include <algorithm>

#include "autograd/ops/view.h"
#include "layers/linear.h"
#include "layers/mixed_precision.h"

namespace bochner::sequence {
namespace {

class MaskedTokenModel final : public Module {
 public:
  MaskedTokenModel(const EncoderOptions& options, int64_t vocabulary, Generator& init)
      : trunk_(sub(""), options, init), scores_(sub("masked"), options.dim, vocabulary, init, options.linear) {}

  /// ids, mask (batch, length), places (batch, hidden) -> (batch, hidden, vocabulary)
  Variable forward(const Tensor& ids, const Tensor& mask, const Tensor& places, Context& context) const {
    const Variable x = trunk_.forward(ids, mask, context).x;
    const Variable of_tokens = slice(x, 1, x.size(1) - ids.size(1), x.size(1));  // without that of the CLS vector
    return scores_.forward(states_at(as_computed(of_tokens), places));
  }

 private:
  bochner::Encoder trunk_;
  Linear scores_;
};

/// How often each token occurs in the texts, as far as a model sees them.
std::vector<int64_t> counts_of_tokens(const Dataset& texts, const Task& task) {
  std::vector<int64_t> counts(static_cast<size_t>(task.vocabulary));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < texts.size(); ++i) {
    for (int s = 0; s < texts.sequences(); ++s) {
      ids.resize(static_cast<size_t>(std::min(texts.length(i, s), task.max_length)));
      texts.copy_tokens(i, s, ids);
      for (const int64_t id : ids) ++counts.at(static_cast<size_t>(id));
    }
  }
  return counts;
}

}  // namespace

Examples TextsOfPairs::examples_of(Examples pairs) {
  Examples texts;
  for (const char* name : {"ids", "mask"}) {
    const Tensor both = pairs.at(name);  // (n, 2, length)
    texts.tensors.emplace_back(name, both.reshape({2 * both.size(0), both.size(2)}));
  }
  for (const int64_t pair : pairs.numbers) texts.numbers.insert(texts.numbers.end(), {2 * pair, 2 * pair + 1});
  return texts;
}

Problem masked_tokens(const RunOptions& run, const EncoderOptions& options, const TaskData& data, double share) {
  const int64_t vocabulary = data.task.vocabulary;
  if (options.vocabulary <= vocabulary) {
    fail(
        "masked tokens: the model has {} tokens, all of them the data's; --model.mask-token adds one that hides others",
        options.vocabulary);
  }
  const MaskingOptions masking{.vocabulary = vocabulary, .mask = vocabulary, .share = share};
  const uint64_t seed = stream_of(run.seed, Stream::own).seed();
  Generator init = stream_of(run.seed, Stream::init);
  const auto model = std::make_shared<MaskedTokenModel>(options, vocabulary, init);
  const auto masked = [masking, seed, pairs = data.task.sequences == 2](std::unique_ptr<Feed> feed, Masks masks) {
    if (pairs) feed = std::make_unique<TextsOfPairs>(std::move(feed));
    return std::make_unique<MaskedFeed>(std::move(feed), masking, seed, masks);
  };

  Problem problem = without_model(run, options, data);
  problem.model = model;
  problem.forward = [model](const Examples& examples, Context& context) -> Outputs {
    return {model->forward(examples.at("ids"), examples.at("mask"), examples.at("places"), context)};
  };
  problem.objective = std::make_shared<MaskedTokens>();
  problem.train = masked(std::move(problem.train), Masks::anew);
  const auto split = [masked, texts = problem.split](Split of) { return masked(texts(of), Masks::fixed); };
  problem.split = split;
  problem.metrics = metrics_named({"loss", "perplexity", "accuracy"});
  problem.baselines = [data, split] {
    return std::vector<Baseline>{unigram_baseline(counts_of_tokens(*data.train, data.task), *split(Split::test))};
  };
  return problem;
}

}  // namespace bochner::sequence
