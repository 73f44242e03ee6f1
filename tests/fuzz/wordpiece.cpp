// The input as a text for a small vocabulary; then as vocab.txt of a folder or, if it may be JSON, as tokenizer.json
// and tokenizer_config.json. The folder's tokenizer, if there is one, encodes the input itself.
#include "datasets/tokenizers/wordpiece.h"

#include <algorithm>
#include <filesystem>

#include "tests/files.h"
#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

namespace {

constexpr int64_t kLongest = 7;

WordpieceVocabulary small() {
  WordpieceVocabulary vocabulary;
  vocabulary.file = "fuzz";
  vocabulary.pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "abc", "##bc", "\u4e2d", "\u00e4"};
  for (char letter = '!'; letter <= '~'; ++letter) {
    vocabulary.pieces.emplace_back(1, letter);
    vocabulary.pieces.push_back(std::string("##") + letter);
  }
  vocabulary.unknown = 1;
  vocabulary.begin = 2;
  vocabulary.end = 3;
  vocabulary.mask = 4;
  for (int32_t id = 0; id < 5; ++id) vocabulary.added.push_back({vocabulary.pieces[static_cast<size_t>(id)], id, true});
  return vocabulary;
}

/// What holds for the ids of any text. `warm` has seen other texts before.
void encode(const Wordpiece& tokenizer, Wordpiece::Encoder& warm, std::string_view text) {
  const WordpieceVocabulary& vocabulary = tokenizer.vocabulary();
  Wordpiece::Encoder fresh(tokenizer);
  const Encoding whole = warm.encode(text);
  fuzz::must(whole.ids == fresh.encode(text).ids, "ids do not depend on the texts before");
  fuzz::must(whole.ids.size() >= 2 && whole.ids.front() == vocabulary.begin && whole.ids.back() == vocabulary.end,
             "a text stands between [CLS] and [SEP]");
  fuzz::must(whole.types == std::vector<uint8_t>(whole.ids.size()), "a single text has type 0");
  for (const int32_t id : whole.ids) {
    fuzz::must(id >= 0 && id < tokenizer.size() && !tokenizer.token(id).empty(), "an id is one of the vocabulary");
  }
  const Encoding bare = warm.encode(text, {.special = false});
  fuzz::must(std::equal(bare.ids.begin(), bare.ids.end(), whole.ids.begin() + 1, whole.ids.end() - 1),
             "[CLS] and [SEP] are all that `special` adds");
  const Encoding cut = warm.encode(text, {.longest = kLongest});
  fuzz::must(static_cast<int64_t>(cut.ids.size()) == std::min<int64_t>(kLongest, std::ssize(whole.ids)) &&
                 std::equal(cut.ids.begin(), cut.ids.end() - 1, whole.ids.begin()) && cut.ids.back() == vocabulary.end,
             "a long text is cut at its end");
  const size_t middle = text.size() / 2;
  const Encoding pair = warm.encode_pair(text.substr(0, middle), text.substr(middle), {.longest = kLongest});
  fuzz::must(std::ssize(pair.ids) <= kLongest && pair.ids.size() == pair.types.size(), "a pair is cut");
  fuzz::must(std::is_sorted(pair.types.begin(), pair.types.end()), "the second text follows the first");
}

/// Reads a folder that contains `text` under this name, besides the existing files.
void read(const test::TemporaryFolder& folder, const char* name, std::string_view text) {
  folder.put(name, text);
  fuzz::may_refuse(
      [&] {
        const Wordpiece tokenizer(read_pretrained_vocabulary(folder.path()));
        Wordpiece::Encoder encoder(tokenizer);
        encode(tokenizer, encoder, text);
      },
      folder.path().string());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Wordpiece tokenizer(small());
  static Wordpiece::Encoder encoder(tokenizer);
  static const test::TemporaryFolder folder;
  const std::string text(reinterpret_cast<const char*>(data), size);
  encode(tokenizer, encoder, text);
  if (!text.starts_with('{')) {
    read(folder, "vocab.txt", text);
    return 0;
  }
  read(folder, "tokenizer.json", text);
  std::filesystem::remove(folder / "tokenizer.json");
  folder.put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n");
  read(folder, "tokenizer_config.json", text);
  std::filesystem::remove(folder / "tokenizer_config.json");
  return 0;
}
