#include "experiments/learners/masked/masked_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "engine/error.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/sort.h"

namespace bochner {
namespace {

bool is_share(double value) { return value >= 0 && value <= 1; }

MaskingOptions checked(MaskingOptions options) {
  if (options.vocabulary < 1 || options.mask < 0) {
    fail("masked tokens: vocabulary {} must be at least 1, and the id that masks, {}, at least 0", options.vocabulary,
         options.mask);
  }
  if (!is_share(options.share) || !is_share(options.masked) || !is_share(options.random) ||
      options.masked + options.random > 1) {
    fail("masked tokens: share {}, masked {}, random {} must be from 0 to 1, and the last two together at most 1",
         options.share, options.masked, options.random);
  }
  return options;
}

/// What is hidden in one example.
struct Hidden {
  std::vector<int64_t> places, labels;
};

/// Chooses tokens in a row and changes them there.
Hidden hide(std::span<int64_t> row, const bool* real, const MaskingOptions& options, Generator generator) {
  std::vector<int64_t> places;  // all that may be hidden
  for (size_t i = 0; i < row.size(); ++i) {
    const bool is_special = std::find(options.special.begin(), options.special.end(), row[i]) != options.special.end();
    if ((real == nullptr || real[i]) && !is_special) places.push_back(static_cast<int64_t>(i));
  }
  const auto all = static_cast<int64_t>(places.size());
  const int64_t count = std::min(all, std::max<int64_t>(1, std::llround(options.share * static_cast<double>(all))));
  for (int64_t i = 0; i < count; ++i) {  // the first `count` of a random order
    std::swap(places[static_cast<size_t>(i)], places[static_cast<size_t>(i + generator.below(all - i))]);
  }
  places.resize(static_cast<size_t>(count));
  std::sort(places.begin(), places.end());
  Hidden hidden{std::move(places), {}};
  for (const int64_t place : hidden.places) {
    int64_t& id = row[static_cast<size_t>(place)];
    hidden.labels.push_back(id);
    const double draw = generator.uniform();  // in (0, 1]
    if (draw <= options.masked) {
      id = options.mask;
    } else if (draw <= options.masked + options.random) {
      id = generator.below(options.vocabulary);
    }
  }
  return hidden;
}

}  // namespace

MaskedFeed::MaskedFeed(std::unique_ptr<Feed> feed, MaskingOptions options, uint64_t seed, Masks masks)
    : FeedOver(std::move(feed)), options_(checked(std::move(options))), seed_(seed), masks_(masks) {}

void MaskedFeed::go_to(int64_t step) {
  FeedOver::go_to(step);
  step_ = step;
}

Examples MaskedFeed::examples_of(Examples given) {
  const int64_t epoch = masks_ == Masks::fixed ? 0 : step_ / steps_per_epoch();
  ++step_;
  Examples examples{{}, std::move(given.numbers)};
  Tensor ids;
  const bool* real = nullptr;
  for (auto& [name, tensor] : given.tensors) {
    if (name == "labels") continue;
    if (name == "ids") tensor = ids = tensor.clone();  // the feed may give the same memory again
    if (name == "mask") real = tensor.data<bool>();
    examples.tensors.emplace_back(name, tensor);
  }
  if (!ids.defined() || ids.rank() != 2 || ids.dtype() != DType::i64) {
    fail("masked tokens: the feed must give ids, i64 (n, length){}",
         ids.defined() ? fmt::format(", not {} {}", name_of(ids.dtype()), ids.shape().str()) : "");
  }
  const int64_t n = ids.size(0);
  const int64_t length = ids.size(1);
  const Generator of_epoch = Generator(seed_).fork(static_cast<uint64_t>(epoch));
  std::vector<Hidden> rows;
  size_t most = 1;
  for (int64_t i = 0; i < n; ++i) {
    const std::span<int64_t> row(ids.data<int64_t>() + i * length, static_cast<size_t>(length));
    rows.push_back(hide(row, real == nullptr ? nullptr : real + i * length, options_,
                        of_epoch.fork(static_cast<uint64_t>(examples.numbers[static_cast<size_t>(i)]))));
    most = std::max(most, rows.back().places.size());
  }
  const Shape shape{n, static_cast<int64_t>(most)};
  const Tensor places = Tensor::zeros(shape, DType::i64);
  const Tensor labels = Tensor::full(shape, static_cast<double>(kNoLabel), DType::i64);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].places.begin(), rows[i].places.end(), places.data<int64_t>() + i * most);
    std::copy(rows[i].labels.begin(), rows[i].labels.end(), labels.data<int64_t>() + i * most);
  }
  examples.tensors.emplace_back("places", places);
  examples.tensors.emplace_back("labels", labels);
  return examples;
}

Variable states_at(const Variable& x, const Tensor& places) {
  if (x.value().rank() != 3 || places.rank() != 2 || places.size(0) != x.value().size(0)) {
    fail("states_at: states {} and places {} must be (n, length, dim) and (n, hidden)", x.value().shape().str(),
         places.shape().str());
  }
  return gather(x, 1, places.unsqueeze(-1));
}

Variable MaskedTokens::loss(const Outputs& outputs, const Examples& examples) const {
  const Variable loss = tokens_.loss(outputs, examples);
  return next_sentence_ ? loss + next_.loss({outputs.at(1)}, examples) : loss;
}

Tensor MaskedTokens::terms(const Examples& examples) const {
  return next_sentence_ ? Tensor() : tokens_.terms(examples);
}

Tensor MaskedTokens::correct(const Outputs& outputs, const Examples& examples) const {
  return tokens_.correct(outputs, examples);
}

void MaskedTokens::collect(const Outputs& outputs, const Examples& examples, Answers& to) const {
  tokens_.collect(outputs, examples, to);
  const Tensor mean = cross_entropy(outputs.at(0).value(), examples.at("labels"), {.ignore = kNoLabel}).loss;
  to.nats += mean.item() * tokens_.terms(examples).item();
  if (!next_sentence_) return;
  const Tensor guesses = argmax(outputs.at(1).value(), 1);
  for (const int64_t guess : guesses.to_vector<int64_t>()) to.next_guesses.push_back(guess);
  for (const int64_t label : examples.at("next").to_vector<int64_t>()) to.next_labels.push_back(label);
}

std::vector<Prediction> MaskedTokens::predictions(const Outputs& outputs, const Examples& examples) const {
  const std::vector<int64_t> guesses = argmax(outputs.at(0).value(), 2).to_vector<int64_t>();
  const std::vector<int64_t> places = examples.at("places").to_vector<int64_t>();
  const std::vector<int64_t> labels = examples.at("labels").to_vector<int64_t>();  // only to see which places are empty
  std::vector<Prediction> all(static_cast<size_t>(examples.size()));
  const size_t hidden = guesses.size() / all.size();
  for (size_t i = 0; i < guesses.size(); ++i) {
    if (labels[i] == kNoLabel) continue;
    std::string& answer = all[i / hidden].answer;
    answer += fmt::format("{}{}:{}", answer.empty() ? "" : " ", places[i],
                          name_ ? name_(guesses[i]) : std::to_string(guesses[i]));
  }
  return all;
}

Baseline unigram_baseline(const std::vector<int64_t>& counts, MaskedFeed& split) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0})) +
                     static_cast<double>(counts.size());
  const auto frequent = std::max_element(counts.begin(), counts.end()) - counts.begin();
  double nats = 0;
  double right = 0;
  double tokens = 0;
  split.go_to(0);
  for (int64_t step = 0; step < split.steps_per_epoch(); ++step) {
    for (const int64_t label : split.next().at("labels").to_vector<int64_t>()) {
      if (label == kNoLabel) continue;
      nats -= std::log((static_cast<double>(counts.at(static_cast<size_t>(label))) + 1) / total);
      right += label == frequent ? 1 : 0;
      tokens += 1;
    }
  }
  return {"unigram", {{"perplexity", std::exp(nats / tokens)}, {"accuracy", right / tokens}}};
}

}  // namespace bochner
