// Masked tokens (Devlin et al., "BERT", 2019, section 3.1): some tokens of a sequence are hidden, and the model
// predicts them from the others. For any model with a state for each token, be they words, bytes or pixels:
//
//   const MaskingOptions masking{.vocabulary = 257, .mask = 257};     // the model has 258 tokens
//   problem.train = std::make_unique<MaskedFeed>(std::move(feed), masking, seed, Masks::anew);
//   problem.split = [=](Split split) {
//     return std::make_unique<MaskedFeed>(feed_of(split), masking, seed, Masks::fixed);
//   };
//   problem.forward = [=](const Examples& examples, Context& context) -> Outputs {
//     const Variable x = model->states(examples.at("ids"), examples.at("mask"), context);   // (n, length, dim)
//     return {model->scores(states_at(x, examples.at("places")))};                         // (n, hidden, vocabulary)
//   };
//   problem.objective = std::make_shared<MaskedTokens>();
//   problem.metrics = metrics_named({"loss", "perplexity", "accuracy"});
//
// Only the states of hidden tokens are scored. A model that puts a vector in front of its tokens removes it before
// states_at().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/learners/feeds.h"
#include "experiments/learners/objective.h"

namespace bochner {

struct MaskingOptions {
  int64_t vocabulary = 0;             ///< random tokens are drawn from 0 ... vocabulary - 1
  int64_t mask = 0;                   ///< the id that hides a token
  double share = 0.15;                ///< share of an example's tokens that are hidden: rounded, but at least one
  double masked = 0.8;                ///< share of the hidden tokens that become `mask`, ...
  double random = 0.1;                ///< ... and that become a random token; the others stay as they are
  std::vector<int64_t> special = {};  ///< ids that are never hidden, such as those of [CLS] and [SEP]
};

/// Which tokens are hidden depends only on the seed, the epoch and the number of the example.
enum class Masks : unsigned char {
  anew,  ///< different ones in each epoch
  fixed  ///< those of epoch 0, for evaluation
};

/// Batches of another feed with hidden tokens. That feed gives `ids` i64 (n, length) and may give `mask`, true at real
/// tokens, and other tensors, which are kept; its `labels` are dropped. Adds, both i64 (n, hidden), `places`, the
/// places of the tokens to predict, in order, and `labels`, what they were. `hidden` is that of the example with the
/// most hidden tokens; for the others, the last places are 0 and their labels kNoLabel.
class MaskedFeed final : public FeedOver {
 public:
  /// An Error if the shares are not valid, or if `mask` or `vocabulary` is missing.
  MaskedFeed(std::unique_ptr<Feed> feed, MaskingOptions options, uint64_t seed, Masks masks);
  void go_to(int64_t step) override;

 private:
  Examples examples_of(Examples given) override;

  MaskingOptions options_;
  uint64_t seed_;
  Masks masks_;
  int64_t step_ = 0;
};

/// y_ijd = x_(i, places_ij, d):  (n, length, dim), (n, hidden) -> (n, hidden, dim)
Variable states_at(const Variable& x, const Tensor& places);

/// Cross-entropy of the scores of hidden tokens, outputs[0] (n, hidden, vocabulary). With `next_sentence`, plus that of
/// outputs[1] (n, 2) and the label `next` (n): does the second text follow the first? That sum cannot be taken over
/// parts of a batch. Metrics: `perplexity` and `accuracy` of hidden tokens, and `next-sentence`.
class MaskedTokens final : public Objective {
 public:
  /// `name` gives the text of an id for predictions; without it, predictions hold the ids.
  explicit MaskedTokens(bool next_sentence = false, std::function<std::string(int64_t)> name = {})
      : next_sentence_(next_sentence), name_(std::move(name)) {}
  Variable loss(const Outputs& outputs, const Examples& examples) const override;
  Tensor terms(const Examples& examples) const override;
  bool judges() const override { return true; }
  Tensor correct(const Outputs& outputs, const Examples& examples) const override;
  int64_t judged(const Examples& examples) const override { return tokens_.judged(examples); }
  void collect(const Outputs& outputs, const Examples& examples, Answers& to) const override;
  /// For each hidden token of an example, its place, counted from 0, and what the model predicts: `3:one 8:two`.
  std::vector<Prediction> predictions(const Outputs& outputs, const Examples& examples) const override;

 private:
  bool next_sentence_;
  std::function<std::string(int64_t)> name_;
  Classification tokens_{"labels"};
  Classification next_{"next"};
};

/// Perplexity and accuracy on a split without looking at its texts: token i has the probability (counts_i + 1) / sum_j
/// (counts_j + 1), where counts are those of the training texts; the guess is always the most frequent token.
Baseline unigram_baseline(const std::vector<int64_t>& counts, MaskedFeed& split);

}  // namespace bochner
