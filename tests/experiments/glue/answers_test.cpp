// The answers of a model for GLUE, in the form that the server accepts.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/experiments/glue/glue.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::contents;
using test::Ended;
using test::Glue;
using test::put;

TEST_F(Glue, AnswersAreWhatTheServerTakes) {
  const Ended trained = train({"--out=a"});
  ASSERT_EQ(trained.code, 0);
  EXPECT_NE(trained.err.find("(best of dev, step "), std::string::npos) << trained.err;
  EXPECT_NE(trained.out.find("Dev accuracy on rte "), std::string::npos) << trained.out;
  EXPECT_EQ(trained.out.find("Test "), std::string::npos) << trained.out;
  EXPECT_NE(contents(folder_ / "a/report.html").find("dev accuracy"), std::string::npos);
  const Ended measured = run({"--evaluate=a"});
  EXPECT_NE(measured.out.find("\ndev: loss "), std::string::npos) << measured.out;
  EXPECT_EQ(std::count(measured.out.begin(), measured.out.end(), '\n'), 2) << measured.out;  // the model and its set
  const Ended asked = run({"--predict=a"});
  ASSERT_EQ(asked.code, 0) << asked.err;
  std::istringstream lines(contents(folder_ / "a/RTE.tsv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "index\tprediction");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(std::getline(lines, line)) << i;
    EXPECT_TRUE(line == fmt::format("{}\tentailment", i) || line == fmt::format("{}\tnot_entailment", i)) << line;
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(Glue, OfMnliThereAreTwoDevelopmentSetsAndThreeFilesOfAnswers) {
  const std::vector<std::string> classes = {"neutral", "entailment", "contradiction"};
  const std::filesystem::path mnli = folder_ / "data/glue/MNLI";
  put(mnli / "train.tsv", pairs("gold_label", 9, classes));
  put(mnli / "dev_matched.tsv", pairs("gold_label", 6, classes));
  put(mnli / "dev_mismatched.tsv", pairs("gold_label", 7, classes));
  put(mnli / "test_matched.tsv", pairs("", 2, {}));
  put(mnli / "test_mismatched.tsv", pairs("", 3, {}));
  put(folder_ / "data/glue/diagnostic/diagnostic.tsv", pairs("", 4, {}));
  const Ended trained = train({"--task=mnli", "--out=m"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const json metrics = results("m")["metrics"]["test"];
  for (const auto& [name, rows] : {std::pair{"accuracy", 6}, {"accuracy-mismatched", 7}}) {
    ASSERT_TRUE(metrics.contains(name)) << metrics;
    const double right = rows * metrics[name].get<double>();
    EXPECT_NEAR(right, std::round(right), 1e-9) << name << " is not of " << rows << " rows";
  }
  EXPECT_NE(run({"--evaluate=m"}).out.find("accuracy-mismatched"), std::string::npos);
  ASSERT_EQ(run({"--predict=m", "--out=answers"}).code, 0);
  for (const auto& [file, rows] : {std::pair{"MNLI-m.tsv", 2}, {"MNLI-mm.tsv", 3}, {"AX.tsv", 4}}) {
    std::istringstream lines(contents(folder_ / ("answers/" + std::string(file))));
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "index\tprediction") << file;
    for (int i = 0; i < rows; ++i) {
      ASSERT_TRUE(std::getline(lines, line)) << file << i;
      const bool is_known = std::any_of(classes.begin(), classes.end(), [&](const std::string& name) {
        return line == fmt::format("{}\t{}", i, name);
      });
      EXPECT_TRUE(is_known) << line;
    }
    EXPECT_FALSE(std::getline(lines, line)) << file;
  }
}

TEST_F(Glue, AnswersNeedNoOtherTable) {
  ASSERT_EQ(train({"--out=a"}).code, 0);
  for (const char* name : {"train.tsv", "dev.tsv"}) std::filesystem::remove(folder_ / "data/glue/RTE" / name);
  const Ended asked = run({"--predict=a"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a/RTE.tsv"));
  const Ended measured = run({"--evaluate=a"});
  EXPECT_EQ(measured.code, 2);
  EXPECT_NE(measured.err.find("RTE/train.tsv: is missing"), std::string::npos) << measured.err;
}

// What is reported about the tables from which a model learns is also reported about those that it answers.
TEST_F(Glue, AnswersTellWhatIsUnusualInTheTestSet) {
  ASSERT_EQ(train({"--out=a"}).code, 0);
  put(folder_ / "data/glue/RTE/test.tsv",
      "index\tsentence1\tsentence2\n0\ta \xff\tb\n1\ta b c d e f g h i j k l m\tn\n");
  const Ended asked = run({"--predict=a"});
  ASSERT_EQ(asked.code, 0) << asked.err;
  for (const char* told : {"RTE/test.tsv: 2 rows of the 3000 that are published",
                           "rte test: 1 of 2 rows have more than 16 tokens", "rte test: 1 place was not UTF-8"}) {
    EXPECT_NE(asked.err.find(told), std::string::npos) << told << "\n" << asked.err;
  }
}

}  // namespace
}  // namespace bochner
