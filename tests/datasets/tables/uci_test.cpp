// The published tables of UCI: their layout, their splits, and what is reported if only a part of them is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "datasets/tables/tabular.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/shared_data.h"

namespace bochner {
namespace {

using test::message_of;

class UciFiles : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(UciFiles, AdultIsTwoFilesOfWordsWithAQuestionMarkForWhatIsMissing) {
  const auto row = [](int age, const char* work, const char* country, const char* income) {
    return fmt::format(
        "{}, {}, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, "
        "40, {}, {}\n",
        age, work, country, income);
  };
  std::string train;
  for (int i = 0; i < 20; ++i) {
    train += row(20 + i,
                 i % 5 == 3   ? "?"
                 : i % 2 == 0 ? "Private"
                              : "State-gov",
                 "United-States", i % 2 == 0 ? "<=50K" : ">50K");
  }
  const auto data = folder_.put("adult.data", train + "\n");
  const auto test = folder_.put("adult.test", "|1x3 Cross validator\n" + row(25, "Private", "Cuba", "<=50K.") +
                                                  row(30, "?", "United-States", ">50K.") + "\n");
  const TableSplits splits = uci::adult(data, test);
  EXPECT_EQ(splits.classes, 2);
  EXPECT_EQ(splits.train.rows(), 18);
  EXPECT_EQ(splits.valid.rows(), 2);
  EXPECT_EQ(splits.test.labels.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
  ASSERT_GE(splits.columns.size(), 4U);
  EXPECT_EQ(splits.columns[0], "age");
  EXPECT_EQ(splits.columns[1], "workclass=Private");
  EXPECT_EQ(splits.columns[2], "workclass=State-gov");
  EXPECT_EQ(splits.columns[3], "workclass is missing");
  EXPECT_EQ(splits.columns.back(), "native-country=United-States");
  const std::vector<float> values = splits.test.features.to_vector<float>();
  const size_t columns = splits.columns.size();
  EXPECT_EQ(values[1], 1);
  EXPECT_EQ(values[columns - 1], 0);  // Cuba is in no training row
  EXPECT_EQ(values[columns + 3], 1);
  EXPECT_EQ(values[2 * columns - 1], 1);
  const auto strange = folder_.put("strange.test", "|\n" + row(25, "Private", "Cuba", "<=50K.").replace(0, 2, "young") +
                                                       row(25, "Private", "Cuba", ">50K.").replace(0, 2, "old"));
  EXPECT_NE(message_of([&] { uci::adult(data, strange); }).find("column 'age' holds words, in"), std::string::npos);
}

TEST(Uci, AdultAsItIs) {
  const std::filesystem::path data = test::shared_data("uci/adult.data.gz");
  const std::filesystem::path test = test::shared_data("uci/adult.test.gz");
  if (data.empty() || test.empty()) GTEST_SKIP() << "adult.data.gz and adult.test.gz are not there";
  const TableSplits splits = uci::adult(data, test);
  EXPECT_EQ(splits.train.rows() + splits.valid.rows(), 32561);
  EXPECT_EQ(splits.test.rows(), 16281);
  EXPECT_EQ(splits.classes, 2);
  // 6 columns of numbers, and the categories of the other 8, three of which have gaps
  EXPECT_EQ(splits.columns.size(), 6U + 8 + 16 + 7 + 14 + 6 + 5 + 2 + 41 + 3);
  const std::vector<int64_t> labels = splits.test.labels.to_vector<int64_t>();
  EXPECT_EQ(std::count(labels.begin(), labels.end(), 1), 3846);
}

/// The given number of extra columns of zeros.
std::string zeros(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += ",0";
  return text;
}

TEST_F(UciFiles, HepmassIsTwoFilesWithTheLabelFirst) {
  std::string header = "# label";
  for (int i = 0; i < 28; ++i) header += fmt::format(",f{}", i);
  std::string train = header + "\n";
  for (int i = 0; i < 40; ++i) {
    train += fmt::format("{:.18e},{:.18e},{:.18e}{}\n", i % 2 * 1.0, i * 0.25, -1.0 / (i + 1), zeros(26));
  }
  std::string test = header + "\n";
  for (const char* row : {"1.0,1,2", "0.0,3,4", "1.0,5,6"}) test += row + zeros(26) + "\n";
  const TableSplits splits = uci::hepmass(folder_.put("all_train.csv", train), folder_.put("all_test.csv", test));
  EXPECT_EQ(splits.remarks, (std::vector<std::string>{"all_train.csv holds 40 of the 7000000 published rows",
                                                      "all_test.csv holds 3 of the 3500000 published rows"}));
  EXPECT_EQ(splits.train.features.shape(), (Shape{36, 28}));
  EXPECT_EQ(splits.valid.rows(), 4);
  EXPECT_EQ(splits.test.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(splits.classes, 2);
  const double mean = 17.5 * 0.25;
  EXPECT_NEAR(splits.test.features.data<float>()[0] * splits.scale[0] + mean, 1, 1e-5);
}

TEST_F(UciFiles, OfAPartOfHiggsTheLastTenthTestsAndTheOneBeforeValidates) {
  std::string text;
  for (int i = 0; i < 45; ++i) text += fmt::format("{:.1f},{}{}\n", i % 3 == 0 ? 1.0 : 0.0, i, zeros(27));
  const TableSplits splits = uci::higgs(folder_.put("HIGGS.csv", text));
  int64_t row = 0;
  for (const auto& [split, rows] : {std::pair{&splits.train, 37}, {&splits.valid, 4}, {&splits.test, 4}}) {
    ASSERT_EQ(split->rows(), rows);
    for (int64_t i = 0; i < rows; ++i, ++row) {
      EXPECT_NEAR(split->features.data<float>()[28 * i] * splits.scale[0] + splits.mean[0], static_cast<double>(row),
                  1e-4);
      EXPECT_EQ(split->labels.data<int64_t>()[i], row % 3 == 0 ? 1 : 0);
    }
  }
}

TEST_F(UciFiles, APublishedTableHasItsColumnsAndClasses) {
  const auto refused = [&](const std::string& text) {
    return message_of([&] { uci::higgs(folder_.put("HIGGS.csv", text)); });
  };
  const auto row = [](const char* label, int columns) { return label + zeros(columns) + "\n"; };
  EXPECT_NE(refused(row("0", 7) + row("1", 7)).find("2 rows of 7 columns and a label of 2 classes; the published file"),
            std::string::npos);
  EXPECT_NE(refused(row("0", 28) + row("1", 28) + row("2", 28)).find("a label of 3 classes"), std::string::npos);
}

TEST(Uci, HiggsAsItIs) {
  const std::filesystem::path file = test::shared_data("uci/HIGGS.part7000.csv.gz");
  if (file.empty()) GTEST_SKIP() << "HIGGS.part7000.csv.gz is not there";
  const NumericTable table = read_table(file, {.label = "0", .cache = false});
  EXPECT_EQ(table.features.shape(), (Shape{7000, 28}));
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"0", "1"}));
}

TEST(Uci, CovertypeAsItIs) {
  const std::filesystem::path file = test::shared_data("uci/covtype.first20000.data.gz");
  if (file.empty()) GTEST_SKIP() << "covtype.first20000.data.gz is not there";
  NumericTable table = read_table(file, {.cache = false});
  EXPECT_EQ(table.features.shape(), (Shape{20000, 54}));
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"1", "2", "3", "4", "5", "6", "7"}));
  const TableSplits splits = split_in_order(std::move(table), 11340, 3780, "");
  std::vector<int64_t> counts(7);
  for (const int64_t label : splits.train.labels.to_vector<int64_t>()) ++counts[static_cast<size_t>(label)];
  EXPECT_EQ(counts, std::vector<int64_t>(7, 1620));  // the official training rows: 1,620 of each class
}

}  // namespace
}  // namespace bochner
