#include "experiments/pretrain/problem.h"

#include <algorithm>
#include <sstream>

#include "datasets/tokenizers/wordpiece_training.h"
#include "engine/io/sha256.h"
#include "experiments/common/run/answer.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/run_folder.h"
#include "layers/models/hugging_face.h"

namespace bochner::pretrain {
namespace {

/// Streams of random numbers, besides those of the Learner.
constexpr uint64_t kMasks = static_cast<uint64_t>(Stream::own);
constexpr uint64_t kSentences = kMasks + 1;

uint64_t seed_of(const RunOptions& run, uint64_t stream) { return stream_of(run.seed, Stream{stream}).seed(); }

/// The name in checkpoints of the vocabulary's pieces, one per line.
constexpr const char* kVocabulary = "vocabulary";

std::vector<std::string> pieces_in(const std::string& lines) {
  std::vector<std::string> pieces;
  std::istringstream stream(lines);
  for (std::string piece; std::getline(stream, piece);) pieces.push_back(piece);
  return pieces;
}

/// The vocabulary that a run has learnt with, as lines; empty if its checkpoint, or the file `run`, does not have it.
std::string vocabulary_of(const std::filesystem::path& run) {
  const std::filesystem::path checkpoint = std::filesystem::is_directory(run) ? checkpoint_in(run) : run;
  if (!std::filesystem::exists(checkpoint)) return "";
  const State state = State::values_of(SafetensorsFile(checkpoint));
  if (state.values.contains(kVocabulary)) return state.text(kVocabulary);
  const DataLog unused;  // an older version wrote it when a run was finished
  const std::filesystem::path finished = model_folder(run) / "vocab.txt";
  const bool is_all = !std::filesystem::exists(model_folder(run) / "tokenizer.json");
  return is_all && std::filesystem::exists(finished) ? vocabulary_text(read_vocabulary(finished).pieces) : "";
}

/// For an unfinished run of an older version, which has only the hash of a generated vocabulary.
void require_hash(const std::filesystem::path& run, const std::string& lines) {
  if (!std::filesystem::exists(run / kCheckpointLast)) return;
  const State state = State::values_of(SafetensorsFile(run / kCheckpointLast));
  if (!state.values.contains("run.data")) return;
  Sha256 hash;
  hash.update(bytes_of(lines));
  const std::string now = hash.hex();
  for (const DataRead& read : parse_data_json(state.text("run.data"), state.file)) {
    if (std::filesystem::path(read.name).filename() != "pieces.txt" || read.sha256 == now) continue;
    fail(
        "{}: has learned with the vocabulary of other texts, whose SHA-256 is {}; that of the texts as they are now is "
        "{}; give --text as it was",
        run.string(), read.sha256, now);
  }
}

std::shared_ptr<Bert> new_bert(const Config& config, const text::TokenCache& cache) {
  const Wordpiece& tokenizer = *cache.tokenizer;
  Generator init = stream_of(config.run.seed, Stream::init);
  return std::make_shared<Bert>(Slot{}, config.bert_options(tokenizer.size(), tokenizer.vocabulary().padding), init);
}

}  // namespace

text::TokenCache cache_of(const Config& config, const std::filesystem::path& before, Communicator& comm,
                          const Say& say) {
  const std::string known =
      before.empty() ? "" : comm.broadcast(comm.is_first() ? vocabulary_of(before) : std::string());
  text::TokenCacheOptions texts = config.texts();
  if (texts.vocabulary.empty()) texts.pieces = pieces_in(known);
  const std::filesystem::path folder =
      config.cache.empty() ? std::filesystem::path(config.run.data) / "tokens" : std::filesystem::path(config.cache);
  text::TokenCache cache = text::token_cache(folder, texts, say);
  const std::string lines = vocabulary_text(cache.tokenizer->vocabulary().pieces);
  if (!known.empty() && lines != known) {
    fail(
        "{}: has another vocabulary than {}, which has learned with its own; take that one, by --vocab or --pretrained",
        texts.vocabulary.string(), before.string());
  }
  if (known.empty() && comm.is_first() && std::filesystem::is_directory(before)) require_hash(before, lines);
  return cache;
}

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
    record_weights(pretrained_weights(config.pretrained));
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
  problem.objective = std::make_shared<MaskedTokens>(config.next_sentence, [tokenizer = cache.tokenizer](int64_t id) {
    return id < tokenizer->size() ? std::string(tokenizer->token(id)) : std::to_string(id);  // a model may have more
  });
  problem.keeps = [lines = vocabulary_text(vocabulary.pieces)](State& state) { state.set(kVocabulary, lines); };
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
