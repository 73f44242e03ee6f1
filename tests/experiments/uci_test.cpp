// What a person may type for `uci`, the tables that it reads, and the problem that it makes of them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/learners/rows/problem.h"
#include "tests/experiments/learner_problems.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::TemporaryFolder;

/// A run of three steps of a small network on a file.
Ended uci(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> command = {BOCHNER_UCI, "--model.first=8", "--model.hidden=8", "--attention=linear",
                                      "--steps=3", "--batch=4",       "--threads=1"};
  command.insert(command.end(), more.begin(), more.end());
  return Process(std::move(command), folder.path()).wait();
}

/// 40 rows of two numbers and a class, without a header.
std::string rows(const std::string& first = "") {
  std::string text = first;
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{},{}\n", i, i % 7, i % 2 == 0 ? "a" : "b");
  return text;
}

testing::AssertionResult mistake(const Ended& ended, const std::string& part) {
  if (ended.code == 2 && ended.err.find("error: ") != std::string::npos && ended.err.find(part) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "exit code " << ended.code << ", not 2 with '" << part << "': " << ended.err;
}

TEST(UciTypes, FilesOfTwoSetsOfHepmassAreNoPair) {
  const TemporaryFolder folder;
  put(folder / "all_train.csv", "# label,f0\n" + std::string("1.0,0.5\n0.0,2\n"));
  put(folder / "1000_test.csv", "# label,f0\n1.0,0.5\n");
  EXPECT_TRUE(mistake(uci(folder, {"--task=hepmass", "--data=."}), "all_test.csv is missing"));
  EXPECT_TRUE(mistake(uci(folder, {"--task=hepmass", "--data=nowhere"}), "all_train.csv"));
}

TEST(UciTypes, FindsOutWhetherTheFirstRowHoldsNames) {
  const TemporaryFolder folder;
  put(folder / "bare.csv", rows());
  put(folder / "named.csv", rows("x,y,class\n"));
  const auto of = [&](const std::string& file, const std::vector<std::string>& more, const std::string& out) {
    std::vector<std::string> all = {"--data=" + file, "--label=-1", "--out=" + out};
    all.insert(all.end(), more.begin(), more.end());
    return uci(folder, all);
  };
  const Ended bare = of("bare.csv", {}, "1");
  ASSERT_EQ(bare.code, 0) << bare.err;
  EXPECT_NE(bare.err.find("32 + 4 + 4 rows of 2 columns, 2 classes"), std::string::npos) << bare.err;  // none is lost
  EXPECT_NE(bare.err.find("the first row is taken as data (0, 0, a)"), std::string::npos) << bare.err;
  const Ended named = of("named.csv", {}, "2");
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.err.find("32 + 4 + 4 rows of 2 columns, 2 classes"), std::string::npos) << named.err;
  EXPECT_NE(named.err.find("names of the columns (x, y, class)"), std::string::npos) << named.err;
  const Ended on = of("bare.csv", {"--csv.header=on"}, "3");
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_NE(on.err.find("--csv.header=on: the first row, which is not read as data, of bare.csv looks like data"),
            std::string::npos)
      << on.err;
  EXPECT_TRUE(mistake(of("named.csv", {"--csv.header=off"}, "4"),
                      "named.csv: row 1 column 1: 'x' is not a number, as other fields of the column are"));
}

TEST(UciTypes, AFileThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  put(folder / "t.csv", rows());
  EXPECT_TRUE(mistake(uci(folder, {"--data=nofile.csv", "--label", "-1"}), "--data=nofile.csv: there is no such file"));
  EXPECT_TRUE(mistake(uci(folder, {"--data=nofile.csv"}), "--data=nofile.csv: there is no such file or folder"));
  EXPECT_TRUE(mistake(uci(folder, {"--data=.", "--label=-1"}), "--data=. is no file"));
  EXPECT_TRUE(mistake(uci(folder, {"--data=t.csv", "--label=-1", "--task=higgs"}),
                      "--task=higgs has files of its own, in which --label=-1 names nothing"));
  EXPECT_TRUE(mistake(uci(folder, {"--data=t.csv", "--label=-4"}), "there is no column -4 for the label"));
  EXPECT_TRUE(mistake(uci(folder, {"--data=t.csv", "--label=kind"}), "'kind'"));
  EXPECT_TRUE(mistake(uci(folder, {"--data=t.csv", "--label=-1", "--csv.valid-share=0.5", "--csv.test-share=0.5"}),
                      "--csv.valid-share=0.5 and --csv.test-share=0.5 leave no rows for training"));
  put(folder / "empty.csv", "");
  EXPECT_EQ(uci(folder, {"--data=empty.csv", "--label=-1"}).err,
            "error: empty.csv: row 1: no rows of data; the file is empty\n");
  put(folder / "names.csv", "x,y,class\n");
  EXPECT_TRUE(mistake(uci(folder, {"--data=names.csv", "--label=class"}),
                      "names.csv: row 2: no rows of data; there are only the names of the columns"));
  // The folder of all data sets may also be named.
  std::filesystem::create_directories(folder / "data/uci");
  put(folder / "data/uci/adult.data", "");
  EXPECT_TRUE(mistake(uci(folder, {"--data=data", "--task=adult"}), "uci: data/adult.test is missing"));
  put(folder / "twice.csv", rows("x,x,class\n"));
  EXPECT_TRUE(mistake(uci(folder, {"--data=twice.csv", "--label=x"}), "columns 1 and 2 are both named 'x'"));
}

TEST(UciTypes, WhatIsHardlyMeantIsWarnedOf) {
  const TemporaryFolder folder;
  put(folder / "t.csv", rows());
  const Ended ended =
      uci(folder, {"--data=t.csv", "--label=-1", "--batch=100", "--optim.warmup=1000", "--out=out", "--quiet"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("--batch=100 is more than the 32 training rows"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("--optim.warmup=1000 is more than --steps=3"), std::string::npos) << ended.err;
  std::string text;
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{}\n", i, i);
  put(folder / "many.csv", text);
  const Ended many = uci(folder, {"--data=many.csv", "--label=0", "--out=many"});
  EXPECT_TRUE(mistake(many, "of the validation split never occurs in the training rows")) << many.err;
}

TEST(UciTypes, TheRecordNamesTheColumnsThatWordsBecame) {
  const TemporaryFolder folder;
  std::string text = "age,job,id,class\n";
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("{},{},{},{}\n", i % 9 == 0 ? "?" : std::to_string(i), i % 3 == 0 ? "cook" : "smith", i, i % 2);
  }
  put(folder / "t.csv", text);
  const Ended ended = uci(folder, {"--data=t.csv", "--label=class", "--csv.leave-out=id", "--out=out"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("1 of 2 columns hold categories"), std::string::npos) << ended.err;
  const auto results = nlohmann::json::parse(contents(folder / "out/results.json"));
  EXPECT_EQ(results["inputs"], (std::vector<std::string>{"age", "age is missing", "job=cook", "job=smith"}));
}

TEST(UciTypes, SeparatorsAreOneCharacterOrAName) {
  const TemporaryFolder folder;
  std::string text = rows();
  std::replace(text.begin(), text.end(), ',', ' ');
  put(folder / "t.txt", text);
  for (const std::string separator : {" ", "space"}) {
    const Ended ended =
        uci(folder, {"--data=t.txt", "--label=-1", "--csv.separator", separator, "--out=" + separator + "out"});
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
  const Ended wrong = uci(folder, {"--data=t.txt", "--label=-1"});
  EXPECT_TRUE(mistake(wrong, "no column but the label's; are fields separated by something else than ','?"));
  EXPECT_TRUE(mistake(uci(folder, {"--csv.separator=ab"}), "--csv.separator: 'ab' is not one character, tab or space"));
  EXPECT_TRUE(mistake(uci(folder, {"--csv.separator="}), "--csv.separator: nothing follows the equals sign"));
  EXPECT_TRUE(mistake(uci(folder, {"--csv.separator=1"}), "--csv.separator: '1' cannot separate fields"));
}

TEST(UciProblem, EachSplitHasItsOwnRowsAndTheMajorityIsThatOfTraining) {
  const auto split = [](std::vector<int64_t> labels) {
    const auto n = static_cast<int64_t>(labels.size());
    return TableSplit{Tensor::zeros({n, 2}), Tensor::from(labels, {n})};
  };
  TableSplits data;
  data.train = split({1, 1, 1, 0});
  data.valid = split({0, 1});
  data.test = split({0, 0, 1});
  data.classes = 2;
  RunOptions run = test::options_of(2);
  run.attention = "linear";
  rows::ModelConfig model;
  model.first = {4};
  model.hidden = 4;
  const Problem p = rows::classification(run, model, {}, data, {});
  EXPECT_EQ(p.split(Split::valid)->examples(), 2);
  EXPECT_EQ(p.split(Split::test)->examples(), 3);
  EXPECT_EQ(*find_metric(p.baselines().front().test, "accuracy"), 1.0 / 3);
}

}  // namespace
}  // namespace bochner
