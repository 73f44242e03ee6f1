#include "datasets/listops/listops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "datasets/baselines.h"
#include "datasets/listops/expression.h"
#include "engine/io/csv.h"
#include "engine/parallel.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/shared_data.h"

namespace bochner::listops {
namespace {

using test::message_of;
using test::shared_data;
using test::TemporaryFolder;

constexpr const char* kMax = "( ( ( [MAX 1 ) 2 ) ] )";

std::vector<int64_t> tokens_of(const Dataset& dataset, int64_t example) {
  std::vector<int64_t> ids(static_cast<size_t>(dataset.length(example)));
  dataset.copy_tokens(example, 0, ids);
  return ids;
}

TEST(ListOpsRead, RowsBecomeTokensAndLabels) {
  const TemporaryFolder folder;
  const auto path = folder.put("a.tsv", fmt::format("Source\tTarget\n{}\t2\n7\t7\n", kMax));
  const auto data = read(path, "toy");
  EXPECT_EQ(data->name(), "toy");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(tokens_of(*data, 0), (std::vector<int64_t>{11, 2, 3, 15}));
  EXPECT_EQ(tokens_of(*data, 1), (std::vector<int64_t>{8}));
  EXPECT_EQ(data->label(0), 2);
  EXPECT_EQ(data->label(1), 7);
  EXPECT_EQ(tokens_of(*read(path, "toy", {.tokenisation = Tokenisation::released}), 0),
            (std::vector<int64_t>{11, 2, 3}));
  EXPECT_EQ(tokens_of(*read(path, "toy", {.max_length = 2}), 0), (std::vector<int64_t>{11, 2}));
  EXPECT_THROW(read(path, "toy", {.max_length = 0}), Error);
}

TEST(ListOpsRead, RefusesAFileThatTakesTooMuchMemory) {
  const TemporaryFolder folder;
  const auto path = folder.put("a.tsv", "Source\tTarget\n7\t7\n8\t8\n");
  const int64_t bytes = 2 * (1 + 8 + 4);  // a token, where it begins, and the label
  EXPECT_EQ(read(path, "toy", {.most_bytes = bytes})->size(), 2);
  EXPECT_NE(message_of([&] { read(path, "toy", {.most_bytes = bytes - 1}); }).find("take more than 25 bytes"),
            std::string::npos);
}

TEST(ListOpsRead, LineEndsOfTheLongRangeArenaAndAMissingLastOneAreTaken) {
  const TemporaryFolder folder;
  for (const char* text : {"Source\tTarget\r\n4\t4\r\n5\t5\r\n", "Source\tTarget\n4\t4\n5\t5",
                           "\xef\xbb\xbfSource\tTarget\n4\t4\r\n5\t5\n"}) {
    const auto data = read(folder.put("a.tsv", text), "toy");
    ASSERT_EQ(data->size(), 2);
    EXPECT_EQ(data->label(1), 5);
  }
}

TEST(ListOpsRead, LabelsThatLieAreRefusedUnlessNobodyLooks) {
  const TemporaryFolder folder;
  const auto path = folder.put("a.tsv", fmt::format("Source\tTarget\n{}\t2\n{}\t3\n", kMax, kMax));
  EXPECT_EQ(message_of([&] { read(path, "toy"); }),
            path.string() +
                ": row 3 column 2: the label is 3, but the expression is worth 2; the file is damaged or of "
                "another task");
  EXPECT_EQ(read(path, "toy", {.check_labels = false})->label(1), 3);
}

TEST(ListOpsRead, AnExpressionWithoutATokenIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.put("a.tsv", "Source\tTarget\n( ]\t2\n");
  const std::string message =
      message_of([&] { read(path, "toy", {.tokenisation = Tokenisation::released, .check_labels = false}); });
  EXPECT_NE(message.find("row 2 column 1"), std::string::npos) << message;
  EXPECT_NE(message.find("'( ]' has no token that a model reads"), std::string::npos) << message;
}

struct Bad {
  const char* what;
  std::string text;
  const char* message;  ///< what it begins with, after `file: `
};
std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.what; }

class ListOpsBadFile : public ::testing::TestWithParam<Bad> {};

TEST_P(ListOpsBadFile, IsRefusedWithRowAndColumn) {
  const TemporaryFolder folder;
  const auto path = folder.put("bad.tsv", GetParam().text);
  for (const bool check_labels : {true, false}) {
    const std::string message = message_of([&] { read(path, "toy", {.check_labels = check_labels}); });
    const std::string start = path.string() + ": " + GetParam().message;
    EXPECT_EQ(message.substr(0, start.size()), start) << GetParam().what << ": " << message;
  }
}

const std::string kHead = "Source\tTarget\n";

INSTANTIATE_TEST_SUITE_P(
    ByHand, ListOpsBadFile,
    ::testing::Values(
        Bad{"empty file", "", "row 1 column 1: the file is empty"},
        Bad{"only a line end", "\n", "row 1 column 1 (''): the header should be Source, Target"},
        Bad{"only a byte order mark", "\xef\xbb\xbf", "row 1 column 1: the file is empty"},
        Bad{"only a header", kHead, "row 2: the file holds no expressions"},
        Bad{"header without line end", "Source\tTarget", "row 2: the file holds no expressions"},
        Bad{"no header", "7\t7\n", "row 1 column 1 ('7'): the header should be Source, Target"},
        Bad{"columns swapped", "Target\tSource\n7\t7\n", "row 1 column 1 ('Target'): the header should be"},
        Bad{"other separator", "Source,Target\n7,7\n", "row 1 column 1 ('Source,Target'): the header should be"},
        Bad{"header of three", "Source\tTarget\tMore\n", "row 1 column 1 ('Source'): the header should be"},
        Bad{"UTF-16", std::string("\xff\xfeS\0o\0", 6), "row 1 column 1: the text is UTF-16"},
        Bad{"one field", kHead + "7\n",
            "row 2 column 2 ('Target'): the row has 1 fields, not 2: an expression and its value"},
        Bad{"three fields", kHead + "7\t7\t7\n", "row 2 column 3: the row has 3 fields, not 2: an expression and"},
        Bad{"four fields", kHead + "7\t7\t\t7\n", "row 2 column 3: the row has 4 fields, not 2"},
        Bad{"empty line", kHead + "7\t7\n\n7\t7\n", "row 3 column 2 ('Target'): the row has 1 fields, not 2"},
        Bad{"empty line at the end", kHead + "7\t7\n\n", "row 3 column 2 ('Target'): the row has 1 fields, not 2"},
        Bad{"empty expression", kHead + "\t7\n", "row 2 column 1: character 1: there is no expression here"},
        Bad{"empty label", kHead + "7\t\n", "row 2 column 2 ('Target'): the label '' is no digit"},
        Bad{"label of two digits", kHead + "7\t10\n", "row 2 column 2 ('Target'): the label '10' is no digit"},
        Bad{"negative label", kHead + "7\t-1\n", "row 2 column 2 ('Target'): the label '-1' is no digit"},
        Bad{"label with a fraction", kHead + "7\t7.0\n", "row 2 column 2 ('Target'): the label '7.0' is no digit"},
        Bad{"label with a blank", kHead + "7\t 7\n", "row 2 column 2 ('Target'): the label ' 7' is no digit"},
        Bad{"label is a letter", kHead + "7\tx\n", "row 2 column 2 ('Target'): the label 'x' is no digit"},
        Bad{"zero byte", kHead + std::string("7\0\t7\n", 5), "row 2 column 1 ('Source'): a zero byte"},
        Bad{"unknown operator", kHead + "7\t7\n( ( [AVG 1 ) ] )\t1\n",
            "row 3 column 1: character 5: '[AVG 1 )' begins no operator"},
        Bad{"two blanks", kHead + "( ( [SM  1 ) ] )\t1\n", "row 2 column 1: character 9: ' 1 ) ] )' begins no token"},
        Bad{"blank at the end", kHead + "7 \t7\n", "row 2 column 1: character 2: a blank at the end"},
        Bad{"bytes outside ASCII", kHead + "\xc3\xa9\t7\n",
            "row 2 column 1: character 1: '\\xc3\\xa9' begins no token"},
        Bad{"quotes", kHead + "\"7\"\t7\n", "row 2 column 1: character 1: '\"7\"' begins no token"},
        Bad{"CR alone", kHead + "7\r7\t7\n", "row 2 column 1: character 2: '\\x0d7' should be a blank"},
        Bad{"not gzip after all", std::string("\x1f\x8b\x08\x00garbage garbage", 19), "offset "}));

class ListOpsBadTree : public ::testing::TestWithParam<Bad> {};

TEST_P(ListOpsBadTree, IsRefusedByTheCheckOfLabels) {
  const TemporaryFolder folder;
  const auto path = folder.put("bad.tsv", kHead + GetParam().text);
  const std::string message = message_of([&] { read(path, "toy"); });
  const std::string start = path.string() + ": " + GetParam().message;
  EXPECT_EQ(message.substr(0, start.size()), start) << message;
  EXPECT_EQ(message_of([&] { read(path, "toy", {.check_labels = false}); }), "no error");
}

INSTANTIATE_TEST_SUITE_P(
    ByHand, ListOpsBadTree,
    ::testing::Values(Bad{"cut short", "( ( [SM 1 )\t1\n", "row 2 column 1: character 12: "},
                      Bad{"parenthesis missing", "( [SM 1 ) ] )\t1\n", "row 2 column 1: character 1: "},
                      Bad{"parenthesis too many", "( ( [SM 1 ) ] ) )\t1\n", "row 2 column 1: character 16: "},
                      Bad{"without parentheses", "[SM 1 ]\t1\n", "row 2 column 1: character 1: "},
                      Bad{"two expressions", "1 1\t1\n", "row 2 column 1: character 2: "},
                      Bad{"lying label", "1\t2\n", "row 2 column 2: the label is 2, but the expression is worth 1"}));

// Two bad rows, far apart: the first one is named, with any number of threads.
TEST(ListOpsRead, TheFirstBadRowIsNamedWithAnyNumberOfThreads) {
  const TemporaryFolder folder;
  std::string text = kHead;
  for (int row = 2; row < 5000; ++row) {
    text += kMax;
    text += row == 1000 || row == 1001 || row == 4000 ? "\t5\n" : "\t2\n";
  }
  const auto path = folder.put("a.tsv", text);
  const int before = threads();
  for (const int count : {1, 2, 5}) {
    set_threads(count);
    EXPECT_NE(message_of([&] { read(path, "toy"); }).find(": row 1000 column 2: the label is 5"), std::string::npos);
  }
  set_threads(before);
}

TEST(ListOpsRead, AMissingFileIsAnError) {
  EXPECT_NE(message_of([] { read("/nonexistent/a.tsv", "toy"); }).find("/nonexistent/a.tsv"), std::string::npos);
}

TEST(ListOpsTask, IsMadeReadAndDescribed) {
  const TemporaryFolder folder;
  TaskOptions options;
  options.place.folder = folder / "listops";
  options.generator.min_length = 5;
  options.generator.max_length = 40;
  options.generator.train = 3000;
  options.generator.valid = 50;
  options.generator.test = 60;
  options.read.max_length = 30;
  std::vector<std::string> told;
  const Say say = [&](const std::string& line) { told.push_back(line); };
  const TaskData data = load_task(options, say);
  EXPECT_EQ(told.size(), 2U);
  EXPECT_EQ(data.task.name, "listops");
  EXPECT_EQ(data.task.classes, 10);
  EXPECT_EQ(data.task.vocabulary, 16);
  EXPECT_EQ(data.task.max_length, 30);
  EXPECT_EQ(data.task.sequences, 1);
  EXPECT_EQ(data.train->size(), 3000);
  EXPECT_EQ(data.valid->size(), 50);
  EXPECT_EQ(data.test->size(), 60);
  const std::vector<Expression> trees = generate(options.generator);
  int64_t longest = 0;
  for (int64_t i = 0; i < data.train->size(); ++i) {
    const Expression& tree = trees[static_cast<size_t>(i)];
    ASSERT_EQ(data.train->label(i), tree.value());
    ASSERT_EQ(data.train->length(i), std::min<int64_t>(30, tree.length()));
    longest = std::max(longest, tree.length());
    for (const int64_t id : tokens_of(*data.train, i)) ASSERT_TRUE(id > 0 && id < data.task.vocabulary);
  }
  EXPECT_EQ(longest, 39);
  EXPECT_EQ(data.test->label(59), trees.back().value());

  // MAX tends to 9 and MIN to 0, so knowing the first operator beats the most frequent class.
  const std::vector<int64_t> labels = labels_of(*data.train);
  const auto share = static_cast<double>(std::count(labels.begin(), labels.end(), most_frequent(labels))) /
                     static_cast<double>(labels.size());
  EXPECT_GT(first_token_accuracy(*data.train, *data.train), share + 0.1);

  options.read.tokenisation = Tokenisation::released;
  const TaskData released = load_task(options, say);
  EXPECT_EQ(told.size(), 3U);
  EXPECT_EQ(released.task.vocabulary, 15);
  EXPECT_LT(released.train->length(0), trees[0].length());
}

// ---- files made by others

TEST(ListOpsShared, EveryLabelOfTheOriginalTestSetIsRight) {
  const auto path = shared_data("lra/listops_nyu_test_d20s.tsv.gz");
  if (path.empty()) GTEST_SKIP() << "no lra/listops_nyu_test_d20s.tsv.gz in $BOCHNER_DATA or ../shared/data";
  const auto data = read(path, "nyu", {.max_length = 100'000, .layout = Layout::nyu});
  ASSERT_EQ(data->size(), 10'000);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < data->size(); ++i) lengths.push_back(data->length(i));
  std::sort(lengths.begin(), lengths.end());
  EXPECT_EQ(lengths[5000], 16);
  EXPECT_EQ(lengths.back(), 939);
}

TEST(ListOpsShared, EveryLabelOfTheSampleInTheFormOfTheLongRangeArenaIsRight) {
  const auto path = shared_data("lra/listops_lra_format_sample.tsv");
  if (path.empty()) GTEST_SKIP() << "no lra/listops_lra_format_sample.tsv in $BOCHNER_DATA or ../shared/data";
  EXPECT_EQ(read(path, "sample")->size(), 16);
}

// Parsing and writing again must give the same text, character by character.
TEST(ListOpsShared, OurWriterWritesTheirExpressions) {
  const auto path = shared_data("lra/listops_nyu_test_d20s.tsv.gz");
  if (path.empty()) GTEST_SKIP() << "no lra/listops_nyu_test_d20s.tsv.gz in $BOCHNER_DATA or ../shared/data";
  CsvReader table(path, CsvOptions::tsv());
  while (table.next()) {
    std::vector<uint8_t> ids;
    encode(table[1], Tokenisation::fixed, 100'000, ids);
    std::string codes;
    for (const uint8_t id : ids) {
      constexpr const char* kCodes = "\x0b\x0c\x0a\x0d\x0e";  // MAX MED MIN SM ]
      codes += id <= 10 ? static_cast<char>(id - 1) : kCodes[id - 11];
    }
    const Expression tree(codes);
    ASSERT_EQ(tree.str(), table[1]);
    ASSERT_EQ(tree.value(), table.integer(0));
  }
}

}  // namespace
}  // namespace bochner::listops
