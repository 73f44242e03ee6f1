// Pretraining as a Problem for the Learner: hidden tokens of pieces of text and, on request, the next sentence.
#pragma once

#include "datasets/say.h"
#include "experiments/learners/feeds.h"
#include "experiments/learners/learner.h"
#include "experiments/learners/masked/masked_tokens.h"
#include "experiments/pretrain/config.h"

namespace bochner::pretrain {

/// Pieces of a stream as examples of equal length. `ids` (n, length): [CLS] piece [SEP]. With `next_sentence`: [CLS] A
/// [SEP] B [SEP], with `types` (n, length) and `next` (n); the piece is cut at a random place, and half of the time
/// (`next` 1) B is the end of another piece instead of its own.
class PieceFeed final : public LoaderFeed {
 public:
  PieceFeed(std::shared_ptr<const text::TokenStream> stream, const WordpieceVocabulary& vocabulary,
            const LoaderOptions& options, bool next_sentence, uint64_t seed, Masks masks)
      : LoaderFeed(stream, options),
        stream_(std::move(stream)),
        begin_(vocabulary.begin),
        end_(vocabulary.end),
        next_sentence_(next_sentence),
        seed_(seed),
        masks_(masks) {}

 private:
  Examples examples_of(Batch batch) override;

  std::shared_ptr<const text::TokenStream> stream_;
  int64_t begin_, end_;
  bool next_sentence_;
  uint64_t seed_;
  Masks masks_;
};

/// The texts as tokens. `before` is the run, or its checkpoint, whose model is used or trained further; empty if there
/// is none: a vocabulary that was made for that run is used, whatever the texts are now. An Error if --vocab or
/// --pretrained has another vocabulary than that run.
text::TokenCache cache_of(const Config& config, const std::filesystem::path& before, Communicator& comm,
                          const Say& say);

/// The number of tokens in a piece: those of an example without [CLS] and [SEP].
int64_t piece_length(const Config& config);

Problem problem_of(const Config& config, const text::TokenCache& cache, const Say& say);

/// Writes the best model of a run and its tokenizer into a folder, for transformers if its attention is softmax.
void save_model(const Config& config, const text::TokenCache& cache, const std::filesystem::path& run,
                const std::filesystem::path& folder);
/// The folder that a finished run has written it to.
std::filesystem::path model_folder(const std::filesystem::path& run);

}  // namespace bochner::pretrain
