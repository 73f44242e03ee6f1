// The tokenize program: ids of lines, a vocabulary made from text, and what is refused.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "datasets/tokenizers/wordpiece.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Ended;
using test::TemporaryFolder;

constexpr const char* kVocabulary = BOCHNER_SOURCE_DIR "/tests/golden/wordpiece/vocab.txt";
const std::string kVocabularyOption = std::string("--vocab=") + kVocabulary;

Ended tokenize(const TemporaryFolder& folder, const std::string& options, const std::string& input = "/dev/null") {
  return test::run(folder, {"/bin/sh", "-c", BOCHNER_TOKENIZE " " + options + " <" + input});
}

// Other tests hold the tokenizer's ids against Hugging Face's.
TEST(TokenizeProgram, PrintsTheIdsOfLinesAndOfPairs) {
  const TemporaryFolder folder;
  test::put(folder / "lines", "a b\n\na [MASK]\ta b a b\nb\xff\n");
  const auto expect = [&](const std::string& options, bool in_text, const EncodeOptions& encode, bool ids) {
    const Ended ended = tokenize(folder, kVocabularyOption + options, "lines");
    ASSERT_EQ(ended.code, 0) << ended.err;
    const Wordpiece tokenizer(read_vocabulary(kVocabulary), in_text);
    Wordpiece::Encoder encoder(tokenizer);
    std::string lines;
    for (const Encoding& one : {encoder.encode("a b", encode), encoder.encode("", encode),
                                encoder.encode_pair("a [MASK]", "a b a b", encode), encoder.encode("b\xff", encode)}) {
      std::vector<std::string> words;
      for (const int32_t id : one.ids) {
        words.push_back(ids ? std::to_string(id) : std::string(tokenizer.token(id)));
      }
      lines += fmt::format("{}\n", fmt::join(words, " "));
    }
    EXPECT_EQ(ended.out, lines) << options;
    EXPECT_EQ(ended.err, told_of_replaced(1) + "\n") << options;
  };
  expect("", true, {}, true);
  expect(" --print=tokens", true, {}, false);
  expect(" --special=false", true, {.special = false}, true);
  expect(" --longest=6", true, {.longest = 6}, true);
  expect(" --special-in-text=false --print=tokens", false, {}, false);
  EXPECT_EQ(tokenize(folder, kVocabularyOption + " --print=tokens", "lines").out.substr(0, 16), "[CLS] a b [SEP]\n");
}

TEST(TokenizeProgram, ReadsTheVocabularyOfAPretrainedModel) {
  const TemporaryFolder folder;
  test::put(folder / "lines", "a B\n");
  std::filesystem::create_directory(folder / "model");
  std::filesystem::copy_file(kVocabulary, folder / "model/vocab.txt");
  const Ended ended = tokenize(folder, "--pretrained=model --print=tokens", "lines");
  EXPECT_EQ(ended.out, "[CLS] a b [SEP]\n") << ended.err;
  EXPECT_EQ(tokenize(folder, "--pretrained=model --print=tokens --lower-case=no", "lines").out, "[CLS] a B [SEP]\n");
}

TEST(TokenizeProgram, MakesAVocabularyOfText) {
  const TemporaryFolder folder;
  test::put(folder / "text", "one two one two\n");
  const Ended ended = tokenize(folder, "--train=text --to=vocab.txt --lower-case=yes");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(test::contents(folder / "vocab.txt").starts_with("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"));
  EXPECT_EQ(tokenize(folder, "--vocab=vocab.txt --print=tokens").code, 0);
}

TEST(TokenizeProgram, OfNoWordsNoVocabularyIsMade) {
  const TemporaryFolder folder;
  test::put(folder / "empty", "");
  test::put(folder / "blank", " \n\n");
  const Ended ended = tokenize(folder, "--train=empty,blank --to=vocab.txt");
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.err, "error: --train=empty,blank: no word to make a vocabulary of; name files that hold text\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "vocab.txt"));
}

TEST(TokenizeProgram, NoFileIsOverwritten) {
  const TemporaryFolder folder;
  for (const char* name : {"text", "vocab.txt"}) {
    test::put(folder / name, "one two\n");
    const Ended ended = tokenize(folder, fmt::format("--train=text --to=./{}", name));
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.err, fmt::format("error: --to=./{}: there is such a file already; name another\n", name));
    EXPECT_EQ(test::contents(folder / name), "one two\n");
  }
}

TEST(TokenizeProgram, OptionsThatWouldChangeNothingAreRefused) {
  const TemporaryFolder folder;
  test::put(folder / "text", "one two\n");
  const auto told = [&](const std::string& options, const std::string& option, const char* only) {
    const Ended ended = tokenize(folder, options + " " + option);
    EXPECT_EQ(ended.code, 2) << option;
    const std::string name = option.substr(0, option.find('='));
    EXPECT_EQ(ended.err,
              fmt::format("error: {}: leave it out; it counts only {}, and would change nothing here\n", name, only));
  };
  for (const char* option : {"--to=v.txt", "--size=9", "--least-count=1", "--characters=9"}) {
    told(kVocabularyOption, option, "with --train");
  }
  for (const char* option : {"--pretrained=a", "--vocab=a", "--print=ids", "--longest=3", "--special=false"}) {
    told("--train=text --to=v.txt", option, "without --train");
  }
}

}  // namespace
}  // namespace bochner
