#include "datasets/corpora/token_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>

#include "datasets/corpora/documents.h"
#include "datasets/tokenizers/wordpiece_training.h"
#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/data_log.h"
#include "engine/io/sha256.h"

namespace bochner::text {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion = "3";  // increase it whenever the same recipe gives other tokens
constexpr int64_t kHeldOut = 20;
constexpr const char* kVocabulary = "pieces.txt";  // not the name of a published file
constexpr const char* kSources = "sources.txt";
const std::array<std::string, 3> kParts = {"train.i32", "valid.i32", "test.i32"};

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(bytes_of(text));
  return hash.hex();
}

/// The paths of a recipe's files.
fs::path folder_of(const fs::path& folder, const std::map<std::string, std::string>& options) {
  std::string text;
  for (const auto& [name, value] : options) text += name + "=" + value + "\n";
  return folder / sha256_of(text).substr(0, 16);
}

/// What distinguishes a file from another without reading it.
std::string described(const std::vector<fs::path>& files) {
  std::string text;
  for (const fs::path& file : files) {
    const auto time = fs::last_write_time(file).time_since_epoch();
    text += fmt::format("{} {} {}\n", fs::absolute(file).string(), fs::file_size(file),
                        std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  }
  return text;
}

/// Where each document goes.
struct TextFiles {
  std::array<std::vector<fs::path>, 3> files;  ///< of training, validation, test

  /// Calls `line` with part and line, and `end` with the part, of each document.
  template <class Line, class End>
  void read(const Line& line, const End& end) const {
    int64_t document = 0;
    for (size_t own = 0; own < 3; ++own) {
      size_t part = own;
      const auto place = [&] {
        if (own != 0) return;
        const int64_t turn = document % kHeldOut;
        part = turn == kHeldOut - 1 && files[2].empty() ? 2U : turn == kHeldOut - 2 && files[1].empty() ? 1U : 0U;
      };
      place();
      read_documents(
          files[own], [&](std::string_view text) { line(part, text); },
          [&] {
            end(part);
            ++document;
            place();
          });
    }
  }
};

/// Writes ids of 4 bytes to a file.
class IdsFile {
 public:
  explicit IdsFile(const fs::path& path) : file_(path) {}

  std::vector<int32_t>& ids() { return ids_; }
  void write_full() {
    if (ids_.size() >= kPiece) write();
  }
  void commit() {
    write();
    file_.commit();
  }
  int64_t count() const { return count_; }

 private:
  static constexpr size_t kPiece = size_t{1} << 16U;

  void write() {
    static_assert(std::endian::native == std::endian::little);
    file_.write(std::as_bytes(std::span(ids_)));
    count_ += std::ssize(ids_);
    ids_.clear();
  }

  AtomicFile file_;
  std::vector<int32_t> ids_;
  int64_t count_ = 0;
};

/// The texts between the `<unk>` of a line.
template <class Piece, class Unknown>
void between_unknown(std::string_view line, const Piece& piece, const Unknown& unknown) {
  constexpr std::string_view kUnknown = "<unk>";
  for (;;) {
    const size_t at = line.find(kUnknown);
    piece(line.substr(0, at));
    if (at == std::string_view::npos) return;
    unknown();
    line.remove_prefix(at + kUnknown.size());
  }
}

std::vector<std::string> trained_vocabulary(const TextFiles& texts, const TokenCacheOptions& options, const Say& say) {
  WordpieceTrainingOptions training_options;
  training_options.size = options.vocabulary_size;
  training_options.text.lower_case = options.lower_case;
  WordpieceTraining training(training_options);
  texts.read(
      [&](size_t part, std::string_view line) {
        if (part != 0) return;
        between_unknown(
            line, [&](std::string_view piece) { training.add(piece); }, [] {});
      },
      [](size_t) {});
  std::vector<std::string> tokens = training.tokens();
  say(fmt::format("texts: a vocabulary of {} tokens, from {} words", tokens.size(), training.words()));
  return tokens;
}

std::shared_ptr<const Wordpiece> tokenizer_of(const TokenCacheOptions& options, const fs::path& trained) {
  WordpieceOptions text;
  text.lower_case = options.lower_case;
  const fs::path& given = options.vocabulary;
  return std::make_shared<const Wordpiece>(given.empty()             ? read_vocabulary(trained, text)
                                           : fs::is_directory(given) ? read_pretrained_vocabulary(given)
                                                                     : read_vocabulary(given, text),
                                           false);
}

/// Writes the ids of all parts.
std::array<int64_t, 3> tokenise(const TextFiles& texts, const Wordpiece& tokenizer, const fs::path& folder,
                                const Say& say) {
  const WordpieceVocabulary& vocabulary = tokenizer.vocabulary();
  Wordpiece::Encoder encoder(tokenizer);
  std::array<IdsFile, 3> files{IdsFile(folder / kParts[0]), IdsFile(folder / kParts[1]), IdsFile(folder / kParts[2])};
  int64_t unknown = 0;
  int64_t documents = 0;
  texts.read(
      [&](size_t part, std::string_view line) {
        std::vector<int32_t>& ids = files.at(part).ids();
        const auto before = std::ssize(ids);
        between_unknown(
            line, [&](std::string_view piece) { encoder.append(piece, ids); },
            [&] { ids.push_back(vocabulary.unknown); });
        unknown += std::count(ids.begin() + before, ids.end(), vocabulary.unknown);
        files.at(part).write_full();
      },
      [&](size_t part) {
        files.at(part).ids().push_back(vocabulary.end);
        ++documents;
      });
  std::array<int64_t, 3> counts{};
  for (size_t part = 0; part < 3; ++part) {
    files.at(part).commit();
    counts.at(part) = files.at(part).count();
  }
  say(fmt::format("texts: {} documents, {} + {} + {} tokens for training, validation and test, {} of them unknown",
                  documents, counts[0], counts[1], counts[2], unknown));
  if (encoder.replaced() > 0) say(fmt::format("texts: {}", told_of_replaced(encoder.replaced())));
  return counts;
}

/// Ids of a part, each of them one of the vocabulary's.
std::vector<int32_t> ids_at(const InputFile& file, int64_t begin, int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  file.read_at(begin * 4, std::as_writable_bytes(std::span(ids)));
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary) {
      fail("{}: holds the id {}, the vocabulary has {}; remove the folder to have it made again", file.name(), id,
           vocabulary);
    }
  }
  return ids;
}

/// The files of each part. Files that are named for validation or the test are not trained on, even if they are in a
/// folder that is named for training.
TextFiles files_of_parts(const TokenCacheOptions& options, const Say& say) {
  TextFiles texts{{text_files(options.texts), text_files(options.valid), text_files(options.test)}};
  const auto is_held_out = [&](const fs::path& file) {
    const auto is_it = [&](const fs::path& other) { return fs::equivalent(file, other); };
    return std::ranges::any_of(texts.files[1], is_it) || std::ranges::any_of(texts.files[2], is_it);
  };
  const size_t left_out = std::erase_if(texts.files[0], is_held_out);
  if (texts.files[0].empty()) fail("texts: all files for training are also named for validation or the test");
  if (left_out > 0) say(fmt::format("texts: {} files for validation or the test are not learnt from", left_out));
  return texts;
}

std::map<std::string, std::string> recipe_options(const TextFiles& texts, const TokenCacheOptions& options) {
  std::map<std::string, std::string> recipe = {{"version", kVersion},
                                               {"lower-case", fmt::format("{}", options.lower_case)}};
  for (size_t part = 0; part < 3; ++part) recipe["files of " + kParts.at(part)] = described(texts.files.at(part));
  if (options.vocabulary.empty()) {
    recipe["vocabulary"] = fmt::format("trained, {} tokens", options.vocabulary_size);
  } else if (fs::is_directory(options.vocabulary)) {
    std::string all;
    for (const char* file : {"tokenizer.json", "vocab.txt", "tokenizer_config.json"}) {
      const std::optional<fs::path> path = find_packed(options.vocabulary / file);
      if (path) all += fmt::format("{} {}\n", path->filename().string(), sha256_of_file(*path));
    }
    recipe["vocabulary"] = all;
  } else {
    if (!fs::exists(options.vocabulary)) fail("{}: there is no such vocabulary", options.vocabulary.string());
    recipe["vocabulary"] = sha256_of_file(options.vocabulary);
  }
  return recipe;
}

}  // namespace

TokenCache token_cache(const fs::path& folder, const TokenCacheOptions& options, const Say& say) {
  if (options.texts.empty()) fail("texts: there are none; name files, folders or archives");
  const TextFiles texts = files_of_parts(options, say);
  // Nothing is made with a vocabulary that cannot be read.
  if (!options.vocabulary.empty()) tokenizer_of(options, {});
  Recipe recipe;
  recipe.dataset = "texts";
  recipe.options = recipe_options(texts, options);
  TokenCache cache;
  cache.folder = folder_of(folder, recipe.options);
  const std::string given = vocabulary_text(options.pieces);
  const fs::path trained = cache.folder / kVocabulary;
  if (!options.pieces.empty() && !(fs::exists(trained) && read_text(trained) == given)) {
    recipe.options["vocabulary"] = "given, " + sha256_of(given);
    cache.folder = folder_of(folder, recipe.options);
  }
  recipe.parts = {kParts.begin(), kParts.end()};
  recipe.parts.emplace_back(kSources);
  if (options.vocabulary.empty()) recipe.parts.emplace_back(kVocabulary);
  recipe.parts_in_words = "files of the cache";
  recipe.found = "tokens";
  recipe.takes_foreign = false;
  recipe.making =
      fmt::format("tokens of {} files", texts.files[0].size() + texts.files[1].size() + texts.files[2].size());
  recipe.make = [&](const fs::path& staging) {
    const DataLog unused;  // a run reads the cache, whether it was there or not
    Manifest manifest{recipe.dataset, recipe.options, {}};
    const fs::path vocabulary = staging / kVocabulary;
    if (options.vocabulary.empty()) {
      const std::vector<std::string> tokens =
          options.pieces.empty() ? trained_vocabulary(texts, options, say) : options.pieces;
      write_vocabulary(vocabulary, tokens);
      manifest.files.push_back(entry_of(staging, kVocabulary, std::ssize(tokens)));
    }
    const auto tokenizer = tokenizer_of(options, vocabulary);
    const DataLog log;
    const std::array<int64_t, 3> counts = tokenise(texts, *tokenizer, staging, say);
    std::string sources;
    for (const DataRead& read : log.reads()) sources += fmt::format("{}  {}\n", read.sha256, read.name);
    write_file_atomically(staging / kSources, sources);
    manifest.files.push_back(entry_of(staging, kSources, std::ssize(log.reads())));
    for (size_t part = 0; part < 3; ++part) {
      manifest.files.push_back(entry_of(staging, kParts.at(part), counts.at(part)));
    }
    return manifest;
  };
  ensure_made(cache.folder, recipe, say);
  cache.tokenizer = tokenizer_of(options, cache.folder / kVocabulary);
  cache.held_out_valid = options.valid.empty();
  cache.held_out_test = options.test.empty();
  const Manifest manifest = read_manifest(cache.folder);
  const std::array<TokenCache::Part*, 3> parts = {&cache.train, &cache.valid, &cache.test};
  for (size_t i = 0; i < 3; ++i) {
    const auto file = std::find_if(manifest.files.begin(), manifest.files.end(),
                                   [&](const ManifestFile& one) { return one.name == kParts.at(i); });
    if (file == manifest.files.end()) {
      fail("{}: {} is no file in its manifest; remove the folder to have it made again", cache.folder.string(),
           kParts.at(i));
    }
    const fs::path path = cache.folder / file->name;
    *parts.at(i) = TokenCache::Part{path, file->bytes / 4};
    DataLog::add({.name = path.string(), .bytes = file->bytes, .sha256 = file->sha256});
  }
  return cache;
}

TokenStream::TokenStream(const TokenCache& cache, const TokenCache::Part& part, int64_t length)
    : name_(part.path.filename().string()),
      file_(part.path),
      vocabulary_(cache.tokenizer->size()),
      length_(length),
      size_(file_.size() / 4 / length) {
  if (size_ < 1) {
    const bool held_out =
        (&part == &cache.valid && cache.held_out_valid) || (&part == &cache.test && cache.held_out_test);
    fail("{}: {} tokens are fewer than the {} of one example; {}give more text, {}or shorter examples",
         part.path.string(), file_.size() / 4, length,
         held_out ? "it holds one of each twenty documents, and a plain text is one for each 16 KiB: " : "",
         held_out ? "texts for this part alone (pretrain: --valid-text, --test-text), " : "");
  }
}

void TokenStream::copy_tokens(int64_t example, int /*sequence*/, std::span<int64_t> ids) const {
  BOCHNER_ASSERT(example >= 0 && example < size_ && std::ssize(ids) <= length_);
  const std::vector<int32_t> read = ids_at(file_, example * length_, std::ssize(ids), vocabulary_);
  std::copy(read.begin(), read.end(), ids.begin());
}

std::vector<int64_t> token_counts(const TokenCache& cache, const TokenCache::Part& part) {
  constexpr int64_t kPiece = 1 << 16;
  const InputFile file(part.path);
  std::vector<int64_t> counts(static_cast<size_t>(cache.tokenizer->size()));
  for (int64_t begin = 0; begin < part.tokens; begin += kPiece) {
    const int64_t count = std::min(kPiece, part.tokens - begin);
    for (const int32_t id : ids_at(file, begin, count, std::ssize(counts))) ++counts[static_cast<size_t>(id)];
  }
  return counts;
}

}  // namespace bochner::text
