#include "experiments/pretrain/problem.h"

#include <algorithm>

#include "datasets/tokenizers/wordpiece_training.h"
#include "engine/io/data_log.h"
#include "engine/io/sha256.h"
#include "experiments/common/run/answer.h"
#include "layers/models/hugging_face.h"

namespace bochner::pretrain {
namespace {

/// Streams of random numbers, beside those of the Learner.
constexpr uint64_t kMasks = static_cast<uint64_t>(Stream::own);
constexpr uint64_t kSentences = kMasks + 1;

uint64_t seed_of(const RunOptions& run, uint64_t stream) { return stream_of(run.seed, Stream{stream}).seed(); }

std::shared_ptr<Bert> new_bert(const Config& config, const text::TokenCache& cache) {
  const Wordpiece& tokenizer = *cache.tokenizer;
  Generator init = stream_of(config.run.seed, Stream::init);
  return std::make_shared<Bert>(Slot{}, config.bert_options(tokenizer.size(), tokenizer.vocabulary().padding), init);
}

}  // namespace

int64_t piece_length(const Config& config) { return config.max_length - (config.next_sentence ? 3 : 2); }

Examples PieceFeed::examples_of(Batch batch) {
  const int64_t epoch = masks_ == Masks::fixed ? 0 : batch.epoch;
  const int64_t n = batch.size();
  const int64_t piece = batch.ids.size(1);
  const int64_t length = piece + (next_sentence_ ? 3 : 2);
  const Tensor ids = Tensor::empty({n, length}, DType::i64);
  const Tensor types = Tensor::zeros({n, length}, DType::i64);
  const Tensor next = Tensor::zeros({n}, DType::i64);
  const Generator of_epoch = Generator(seed_).fork(static_cast<uint64_t>(epoch));
  std::vector<int64_t> other(static_cast<size_t>(piece));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t* const from = batch.ids.data<int64_t>() + i * piece;
    int64_t* const row = ids.data<int64_t>() + i * length;
    row[0] = begin_;
    row[length - 1] = end_;
    if (!next_sentence_) {
      std::copy(from, from + piece, row + 1);
      continue;
    }
    const int64_t number = batch.examples[static_cast<size_t>(i)];
    Generator draw = of_epoch.fork(static_cast<uint64_t>(number));
    const int64_t cut = 1 + draw.below(piece - 1);
    std::copy(from, from + cut, row + 1);
    row[1 + cut] = end_;
    std::copy(from + cut, from + piece, row + cut + 2);
    std::fill(types.data<int64_t>() + i * length + cut + 2, types.data<int64_t>() + (i + 1) * length, 1);
    if (stream_->size() < 2 || draw.below(2) == 0) continue;
    next.data<int64_t>()[i] = 1;
    const int64_t another = (number + 1 + draw.below(stream_->size() - 1)) % stream_->size();
    stream_->copy_tokens(another, 0, other);
    std::copy(other.begin() + cut, other.end(), row + cut + 2);
  }
  Examples examples{{{"ids", ids}}, std::move(batch.examples)};
  if (next_sentence_) {
    examples.tensors.emplace_back("types", types);
    examples.tensors.emplace_back("next", next);
  }
  return examples;
}

Problem problem_of(const Config& config, const text::TokenCache& cache, const Say& say) {
  const RunOptions& run = config.run;
  const WordpieceVocabulary& vocabulary = cache.tokenizer->vocabulary();
  const std::shared_ptr<Bert> bert = new_bert(config, cache);
  if (!config.pretrained.empty()) {
    say(fmt::format("{}: {}", config.pretrained, load_pretrained(*bert, config.pretrained).text()));
    if (DataLog::is_active()) {
      const std::filesystem::path file = pretrained_weights(config.pretrained);
      DataLog::add({file.string(), static_cast<int64_t>(std::filesystem::file_size(file)), sha256_of_file(file)});
    }
  }
  const MaskingOptions masking{.vocabulary = cache.tokenizer->size(),
                               .mask = vocabulary.mask,
                               .share = config.share,
                               .special = {vocabulary.begin, vocabulary.end, vocabulary.padding, vocabulary.mask}};
  const auto feed_of = [=, next = config.next_sentence](const std::shared_ptr<const text::TokenStream>& stream,
                                                        Masks masks) {
    LoaderOptions order;
    order.batch_size = run.batch;
    order.shuffle = masks == Masks::anew;
    order.drop_last = order.shuffle && stream->size() >= run.batch;
    order.seed = stream_of(run.seed, Stream::order).seed();
    return std::make_unique<MaskedFeed>(
        std::make_unique<PieceFeed>(stream, vocabulary, order, next, seed_of(run, kSentences), masks), masking,
        seed_of(run, kMasks), masks);
  };
  const auto stream_of_part = [&](const text::TokenCache::Part& part) {
    return std::make_shared<const text::TokenStream>(cache, part, piece_length(config));
  };
  const auto valid = stream_of_part(cache.valid);
  const auto test = stream_of_part(cache.test);
  Problem problem;
  problem.model = bert;
  problem.forward = [bert, next = config.next_sentence](const Examples& examples, Context& context) {
    const Variable x = bert->forward({examples.at("ids"), {}, next ? examples.at("types") : Tensor()}, context);
    Outputs outputs = {bert->token_scores(states_at(x, examples.at("places")))};
    if (next) outputs.push_back(bert->next_sentence_scores(bert->pool(x)));
    return outputs;
  };
  problem.objective = std::make_shared<MaskedTokens>(config.next_sentence);
  problem.train = feed_of(stream_of_part(cache.train), Masks::anew);
  problem.split = [=](Split split) { return feed_of(split == Split::valid ? valid : test, Masks::fixed); };
  std::vector<std::string> metrics = {"loss", "perplexity", "accuracy"};
  if (config.next_sentence) metrics.emplace_back("next-sentence");
  problem.metrics = metrics_named(metrics);
  problem.groups = {{.pattern = "*.bias", .weight_decay = 0}, {.pattern = "*norm*.weight", .weight_decay = 0}};
  problem.baselines = [=] {
    return std::vector{unigram_baseline(token_counts(cache, cache.train), *feed_of(test, Masks::fixed))};
  };
  const auto told = [](const char* part, bool held_out) {
    return fmt::format("{}: {}", part, held_out ? "one of each twenty documents of the texts" : "texts of their own");
  };
  problem.remarks = {told("validation", cache.held_out_valid), told("test", cache.held_out_test)};
  return problem;
}

std::filesystem::path model_folder(const std::filesystem::path& run) { return run / "model"; }

void save_model(const Config& config, const text::TokenCache& cache, const std::filesystem::path& run,
                const std::filesystem::path& folder) {
  const std::shared_ptr<Bert> bert = new_bert(config, cache);
  load_module(*bert, best_of(run));
  const std::string tokenizer = config.tokenizer_folder();
  save_pretrained(*bert, folder, tokenizer, Reader::own);
  const WordpieceVocabulary& vocabulary = cache.tokenizer->vocabulary();
  if (tokenizer.empty()) write_vocabulary(folder / "vocab.txt", vocabulary.pieces);
  write_tokenizer_config(folder, vocabulary.options, bert->options().length);
}

}  // namespace bochner::pretrain
