#include "experiments/convert/texts.h"

#include <algorithm>

#include "datasets/corpora/token_cache.h"
#include "datasets/glue/encode.h"
#include "engine/error.h"
#include "experiments/common/config/options.h"
#include "experiments/learners/feeds.h"

namespace bochner::convert {
namespace {

LoaderOptions order(const TextOptions& options, bool shuffle) {
  LoaderOptions order;
  order.batch_size = options.batch;
  order.shuffle = shuffle;
  order.seed = options.seed;
  return order;
}

class Pieces final : public LoaderFeed {
 public:
  Pieces(const text::TokenCache& cache, const text::TokenCache::Part& part, const TextOptions& options, bool shuffle)
      : LoaderFeed(std::make_shared<const text::TokenStream>(cache, part, options.longest - 2),
                   order(options, shuffle)),
        tokenizer_(cache.tokenizer) {}

 private:
  Examples examples_of(Batch batch) override {
    const Tensor piece = batch.ids;
    const int64_t length = piece.size(1);
    Tensor ids = Tensor::empty({piece.size(0), length + 2}, DType::i64);
    ids.slice(1, 0, 1).fill_(static_cast<double>(tokenizer_->vocabulary().begin));
    ids.slice(1, 1, length + 1).copy_(piece);
    ids.slice(1, length + 1, length + 2).fill_(static_cast<double>(tokenizer_->vocabulary().end));
    return {.tensors = {{"ids", ids}}, .numbers = std::move(batch.examples)};
  }

  std::shared_ptr<const Wordpiece> tokenizer_;
};

class Sentences final : public LoaderFeed {
 public:
  Sentences(glue::Encoded texts, const LoaderOptions& order)
      : LoaderFeed(texts.tokens, order), texts_(std::move(texts)) {}

 private:
  Examples examples_of(Batch batch) override {
    return {.tensors = {{"ids", batch.ids}, {"mask", batch.mask}, {"types", glue::types_of(texts_, batch)}},
            .numbers = std::move(batch.examples)};
  }

  glue::Encoded texts_;
};

}  // namespace

Texts pieces_of(const std::vector<std::string>& files, const std::filesystem::path& cache, const TextOptions& options,
                const Say& say) {
  const text::TokenCache tokens = text::token_cache(cache, {.texts = files, .vocabulary = options.vocabulary}, say);
  return {tokens.tokenizer, std::make_unique<Pieces>(tokens, tokens.train, options, true),
          std::make_unique<Pieces>(tokens, tokens.valid, options, false)};
}

Texts sentences_of(const std::string& task, const std::filesystem::path& glue, const TextOptions& options,
                   const Say& say) {
  const glue::Corpus& corpus = glue::corpus_named(task);
  const glue::Table table = glue::read(glue, corpus, corpus.train, {.partial = true}, say);
  const int64_t kept = table.size() - std::max(table.size() / 20, options.batch);
  if (kept < options.batch) {
    fail("{}: {} rows are too few for a batch of {} and another that is held out; choose a smaller --batch", table.name,
         table.size(), options.batch);
  }
  const auto tokenizer =
      std::make_shared<const Wordpiece>(read_pretrained_vocabulary(options.vocabulary), options.special_in_text);
  const auto batches = [&](int64_t begin, int64_t end, bool shuffle) {
    LoaderOptions rows = order(options, shuffle);
    rows.pad_id = tokenizer->vocabulary().padding;
    if (shuffle) rows.group_by_length = kGroupedBatches;  // or else the first held-out batches would be the shortest
    return std::make_unique<Sentences>(encode(table.part(begin, end), *tokenizer, options.longest, say), rows);
  };
  return {tokenizer, batches(0, kept, true), batches(kept, table.size(), false)};
}

}  // namespace bochner::convert
