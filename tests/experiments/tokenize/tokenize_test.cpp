// The tokenize program: ids of lines, a vocabulary made from text, and what is refused.
#include <gtest/gtest.h>

#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Ended;
using test::TemporaryFolder;

constexpr const char* kVocabularyOption = "--vocab=" BOCHNER_SOURCE_DIR "/tests/golden/wordpiece/vocab.txt";

/// Its standard input is empty.
Ended tokenize(const TemporaryFolder& folder, const std::string& options) {
  return test::run(folder, {"/bin/sh", "-c", BOCHNER_TOKENIZE " " + options + " </dev/null"});
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
