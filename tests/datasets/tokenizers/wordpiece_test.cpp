// Ids compared with those of Hugging Face's tokenizers, which tests/golden/wordpiece.py wrote into
// tests/golden/wordpiece.
#include "datasets/tokenizers/wordpiece.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "datasets/tokenizers/utf8.h"
#include "engine/io/archive.h"
#include "engine/io/file.h"
#include "engine/io/sha256.h"
#include "engine/io/stream.h"
#include "engine/sanitizer.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/shared_data.h"

namespace bochner {
namespace {

using nlohmann::json;

const std::string kFolder = BOCHNER_SOURCE_DIR "/tests/golden/wordpiece/";
using Ids = std::vector<int32_t>;

const json& golden() {
  static const json root = [] {
    const std::vector<std::byte> bytes = read_file(kFolder + "golden.json");
    return json::parse(text_of(bytes));
  }();
  return root;
}

/// The first 16 digits of a SHA-256.
std::string digest(std::string_view text) {
  Sha256 hash;
  hash.update(bytes_of(text));
  return hash.hex().substr(0, 16);
}

/// A hash of the ids of several texts, each followed by -1.
class IdHash {
 public:
  void add(Ids ids) {
    ids.push_back(-1);
    hash_.update(std::as_bytes(std::span(ids)));
  }
  std::string digest() const { return hash_.hex().substr(0, 16); }

 private:
  Sha256 hash_;
};

/// A character by itself, between letters, and among marks that NFD reorders.
std::vector<std::string> around(uint32_t code) {
  std::string c;
  unicode::append(code, c);
  return {c, "a" + c + "b", "a\u302E" + c + "\U0001D165" + "b"};
}

/// The blocks of 4096 characters that are compared: all or, if that would take minutes, those with most of the
/// decompositions and marks.
constexpr uint32_t kBlocks = kAddressSanitizer ? 3 : 0x110;

bool is_surrogate(uint32_t code) { return code >= 0xD800 && code < 0xE000; }

struct Vocabulary {
  std::string name;
  std::filesystem::path path;  ///< empty: not on this machine
};

std::vector<Vocabulary> vocabularies() {
  return {{"small", kFolder + "vocab.txt"}, {"bert", test::shared_data("bert/vocab.txt.gz")}};
}

Wordpiece tokenizer(const std::filesystem::path& path, bool lower_case = true, bool special_in_text = true) {
  WordpieceOptions options;
  options.lower_case = lower_case;
  return Wordpiece(read_vocabulary(path, options), special_in_text);
}

Ids ids_of(Wordpiece::Encoder& encoder, std::string_view text) {
  Ids ids;
  encoder.append(text, ids);
  return ids;
}

TEST(Wordpiece, EveryCharacterIsSplitIntoTheSameWords) {
  const auto check = [](const std::string& mode, const WordpieceOptions& options) {
    SCOPED_TRACE(mode);
    const Wordpiece tokenizer(read_vocabulary(kFolder + "vocab.txt", options));
    Wordpiece::Encoder encoder(tokenizer);
    const json& expected = golden()["characters"][mode];
    ASSERT_EQ(expected.size(), 0x110U);
    for (uint32_t block = 0; block < kBlocks; ++block) {
      std::string lines;
      for (uint32_t code = block * 4096; code < (block + 1) * 4096; ++code) {
        if (is_surrogate(code)) continue;
        for (const std::string& text : around(code)) {
          std::string line;
          for (const std::string& word : encoder.words(text)) line += (line.empty() ? "" : "\x1F") + word;
          lines += line + "\n";
        }
      }
      EXPECT_EQ(digest(lines), expected[block].get<std::string>()) << fmt::format("U+{:04X} ff", block * 4096);
    }
  };
  WordpieceOptions options;
  check("uncased", options);
  options.strip_accents = false;
  check("lower-case, accents kept", options);
  options.lower_case = false;
  options.strip_accents.reset();
  check("cased", options);
  options.strip_accents = true;
  check("cased, accents dropped", options);
  options = {};
  options.clean_text = false;
  options.split_chinese = false;
  check("not cleaned", options);
}

TEST(Wordpiece, EveryCharacterHasTheSameIds) {
  for (const auto& [name, path] : vocabularies()) {
    SCOPED_TRACE(name);
    if (path.empty()) continue;
    const Wordpiece whole = tokenizer(path);
    Wordpiece::Encoder encoder(whole);
    for (uint32_t block = 0; block < kBlocks; ++block) {
      IdHash hash;
      for (uint32_t code = block * 4096; code < (block + 1) * 4096; ++code) {
        if (is_surrogate(code)) continue;
        for (const std::string& text : around(code)) hash.add(ids_of(encoder, text));
      }
      EXPECT_EQ(hash.digest(), golden()[name]["characters"][block].get<std::string>())
          << fmt::format("U+{:04X} ff", block * 4096);
    }
  }
}

TEST(Wordpiece, NastyTexts) {
  for (const auto& [name, path] : vocabularies()) {
    SCOPED_TRACE(name);
    if (path.empty()) continue;
    const Wordpiece uncased = tokenizer(path);
    const Wordpiece cased = tokenizer(path, false);
    const Wordpiece plain = tokenizer(path, true, false);
    Wordpiece::Encoder encoders[] = {Wordpiece::Encoder(uncased), Wordpiece::Encoder(cased), Wordpiece::Encoder(plain)};
    const char* const modes[] = {"uncased", "cased", "plain"};
    const json& texts = golden()[name]["texts"];
    ASSERT_GT(texts.size(), 80U);
    for (const json& item : texts) {
      const std::string text = item["text"];
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(ids_of(encoders[i], text), item[modes[i]].get<Ids>())
            << modes[i] << ": " << item["text"].dump(-1, ' ', true);
        // The second time, the words are remembered.
        EXPECT_EQ(ids_of(encoders[i], text), item[modes[i]].get<Ids>());
      }
      EXPECT_EQ(encoders[0].replaced(), 0);
    }
  }
}

TEST(Wordpiece, BytesThatAreNotUtf8AreReplacedAndCounted) {
  for (const auto& [name, path] : vocabularies()) {
    if (path.empty()) continue;
    const Wordpiece whole = tokenizer(path);
    for (const json& item : golden()[name]["damaged"]) {
      const std::string digits = item["bytes"];
      std::string text;
      for (size_t i = 0; i < digits.size(); i += 2)
        text += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
      Wordpiece::Encoder encoder(whole);
      EXPECT_EQ(ids_of(encoder, text), item["ids"].get<Ids>()) << digits;
      EXPECT_EQ(encoder.replaced(), item["replaced"].get<int64_t>()) << digits;
    }
  }
}

TEST(Wordpiece, PairsAndTruncation) {
  for (const auto& [name, path] : vocabularies()) {
    if (path.empty()) continue;
    const Wordpiece whole = tokenizer(path);
    Wordpiece::Encoder encoder(whole);
    for (const json& item : golden()[name]["pairs"]) {
      const EncodeOptions options{.special = true, .longest = item["longest"].get<int64_t>()};
      const std::string a = item["a"];
      const std::string b = item["b"];
      const Encoding pair = encoder.encode_pair(a, b, options);
      EXPECT_EQ(pair.ids, item["ids"].get<Ids>()) << item.dump();
      EXPECT_EQ(pair.types, item["types"].get<std::vector<uint8_t>>()) << item.dump();
      EXPECT_EQ(encoder.encode(a, options).ids, item["one"].get<Ids>()) << item.dump();
    }
    EXPECT_EQ(encoder.encode("hello", {.special = false, .longest = 0}).ids.size(), ids_of(encoder, "hello").size());
    EXPECT_NE(
        test::message_of([&] { encoder.encode_pair("a", "b", {.special = true, .longest = 2}); }).find("alone take 3"),
        std::string::npos);
  }
}

TEST(Wordpiece, ReadsTokenizerJson) {
  const test::TemporaryFolder folder;
  const std::vector<std::byte> file = read_file(kFolder + "tokenizer.json");
  folder.put("tokenizer.json", text_of(file));
  const Wordpiece saved(read_pretrained_vocabulary(folder.path()));
  Wordpiece::Encoder encoder(saved);
  for (const json& item : golden()["saved"]) {
    EXPECT_EQ(encoder.encode(item["text"].get<std::string>()).ids, item["ids"].get<Ids>()) << item["text"];
  }
  EXPECT_EQ(saved.token(saved.size() - 1), "<sep>");

  folder.put("tokenizer_config.json", R"({"do_lower_case": true, "mask_token": {"content": "<sep>"}})");
  const WordpieceVocabulary changed = read_pretrained_vocabulary(folder.path());
  EXPECT_TRUE(changed.options.lower_case);
  EXPECT_EQ(changed.mask, saved.size() - 1);
}

/// The files of an archive, in its order.
std::vector<std::string> files_of(const std::filesystem::path& path) {
  ArchiveReader archive(path);
  std::vector<std::string> files;
  while (archive.next()) files.emplace_back(text_of(archive.read(1 << 20)));
  return files;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(Wordpiece, TextsOfGlueAndImdb) {
  const std::filesystem::path vocabulary = test::shared_data("bert/vocab.txt.gz");
  if (vocabulary.empty()) GTEST_SKIP() << "no bert/vocab.txt.gz";
  const Wordpiece uncased = tokenizer(vocabulary);
  const Wordpiece cased = tokenizer(vocabulary, false);
  Wordpiece::Encoder encoders[] = {Wordpiece::Encoder(uncased), Wordpiece::Encoder(cased)};
  int compared = 0;
  for (const auto& [name, expected] : golden()["files"].items()) {
    const std::filesystem::path path = test::shared_data(name);
    if (path.empty() || (kAddressSanitizer && !name.ends_with("dev.tsv.gz"))) continue;
    std::vector<std::string> texts;
    if (name.ends_with(".zst")) {
      texts = files_of(path);
    } else {
      const auto source = open_unpacked(path);
      const std::vector<std::byte> bytes = read_all(*source, 1 << 30);
      texts = lines_of(std::string(text_of(bytes)));
    }
    ASSERT_EQ(texts.size(), expected["texts"].get<size_t>()) << name;
    for (size_t i = 0; i < 2; ++i) {
      IdHash hash;
      for (const std::string& text : texts) hash.add(ids_of(encoders[i], text));
      EXPECT_EQ(hash.digest(), expected[i == 0 ? "uncased" : "cased"].get<std::string>()) << name;
    }
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "none of the texts";
}

}  // namespace
}  // namespace bochner
