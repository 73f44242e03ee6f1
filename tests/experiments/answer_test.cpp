// --evaluate RUN and --predict RUN, as users call them.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/io/csv.h"
#include "experiments/common/run/state.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::run;
using test::run_toy;
using test::TemporaryFolder;

/// The x of row i.
double x_of(int i) { return static_cast<double>(i * 37 % 200) / 100 - 1; }

/// The class is whether x is above 0.3.
void put_table(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += fmt::format("{:.2f},{}\n", x_of(i), x_of(i) > 0.3 ? "yes" : "no");
  }
  put(folder / "t.csv", text);
}

std::vector<std::string> uci(const std::vector<std::string>& more) {
  std::vector<std::string> command = {BOCHNER_UCI, "--threads=1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

/// The lines of a table, split at tabs.
std::vector<std::vector<std::string>> table(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  return rows;
}

TEST(Answers, OfAFinishedRunAreItsOwn) {
  const TemporaryFolder folder;
  put_table(folder);
  const Ended trained =
      run(folder, uci({"--data=t.csv", "--label=-1", "--csv.test-share=0.2", "--model.first=8", "--model.hidden=8",
                       "--steps=40", "--batch=16", "--optim.rate=1e-2", "--optim.evaluate-every=10", "--out=out"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto metrics = nlohmann::json::parse(contents(folder / "out/results.json"))["metrics"];

  const Ended evaluated = run(folder, uci({"--evaluate=out"}));
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  for (const char* split : {"valid", "test"}) {
    std::string expected = fmt::format("{}: ", split);
    const auto shown = [&](const char* name) {
      return fmt::format("{} {:.4g}", name, metrics[split][name].get<double>());
    };
    expected += shown("loss") + ", " + shown("accuracy") + ", " + shown("auc");
    EXPECT_NE(evaluated.out.find(expected), std::string::npos) << evaluated.out << "not: " << expected;
  }
  EXPECT_NE(evaluated.out.find(fmt::format("step {}\n", metrics["best_step"].get<int>())), std::string::npos);

  // A model other than the run's has no answer for it.
  for (const char* option : {"--evaluate=out", "--predict=out"}) {
    const Ended other = run(folder, uci({option, "--model.hidden=9"}));
    EXPECT_EQ(other.code, 2) << other.out;
    EXPECT_NE(other.err.find("model.hidden is 9 but was 8"), std::string::npos) << other.err;
  }

  const Ended predicted = run(folder, uci({"--predict=out", "--out=said.tsv"}));
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(predicted.out, "said.tsv\n");
  const auto rows = table(contents(folder / "said.tsv"));
  ASSERT_EQ(rows.size(), 1U + 40U);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"index", "prediction", "p0", "p1"}));
  // Numbers are those of the file's rows, in order: the answers are right as often as the run says.
  int right = 0;
  int last = -1;
  for (size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), 4U);
    const int number = std::stoi(rows[i][0]);
    EXPECT_LT(last, number);
    last = number;
    EXPECT_NEAR(std::stod(rows[i][2]) + std::stod(rows[i][3]), 1, 1e-9);
    EXPECT_EQ(rows[i][1], std::stod(rows[i][3]) > 0.5 ? "yes" : "no");
    right += (rows[i][1] == "yes") == (x_of(number) > 0.3) ? 1 : 0;
  }
  EXPECT_LT(last, 200);
  EXPECT_GT(last, 150);
  EXPECT_NEAR(right / 40.0, metrics["test"]["accuracy"].get<double>(), 1e-9);
  const Ended beside = run(folder, uci({"--predict=out"}));
  ASSERT_EQ(beside.code, 0) << beside.err;
  EXPECT_EQ(contents(folder / "out/predictions.tsv"), contents(folder / "said.tsv"));

  std::filesystem::create_directory(folder / "answers");
  EXPECT_EQ(run(folder, uci({"--predict=out", "--out=answers"})).out, "answers/predictions.tsv\n");
  EXPECT_EQ(contents(folder / "answers/predictions.tsv"), contents(folder / "said.tsv"));
  const Ended nowhere = run(folder, uci({"--predict=out", "--out=nowhere/said.tsv"}));
  EXPECT_EQ(nowhere.code, 2) << nowhere.out;
  EXPECT_NE(nowhere.err.find("nowhere/said.tsv"), std::string::npos) << nowhere.err;
}

TEST(Answers, AFolderOfSeveralRunsNamesThem) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=two", "--seeds=2", "--quiet"}).code, 0);
  const std::string those = "there is no run in two itself; name one of those below it: two/seed1, two/seed2";
  for (const auto& [arguments, telling] :
       {std::pair{std::vector<std::string>{"--evaluate=two"}, "--evaluate: " + those},
        {{"--predict=two"}, "--predict: " + those},
        {{"--resume", "--out=two"}, "--resume: " + those},
        {{"--resume=two"}, "--resume=two: a folder is named by --out: " + those},
        {{"--resume=two/seed1"}, "--resume=two/seed1: a folder is named by --out: say --resume --out=two/seed1"},
        {{"--init=two", "--out=b"}, "--init: " + those + "; a safetensors file can be named, too"}}) {
    const Ended ended = run_toy(folder, arguments);
    EXPECT_EQ(ended.code, 2) << telling;
    EXPECT_NE(ended.err.find(telling + "\n"), std::string::npos) << ended.err << "not: " << telling;
  }
}

TEST(Answers, OfARunThatIsNotFinishedComeWithAWarning) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=out", "--quiet"}).code, 0);
  EXPECT_EQ(run_toy(folder, {"--evaluate=out"}).err, "");
  std::filesystem::remove(folder / "out/results.json");
  const Ended ended = run_toy(folder, {"--evaluate=out"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "warning: --evaluate: the run out is not finished; its best model so far is taken\n");
}

// A model is applied to another table: its columns are standardised like those from which the model has learnt.
TEST(Answers, OfAnotherTableTakeItForTheSameColumns) {
  const TemporaryFolder folder;
  const auto put_columns = [&](const char* name, const char* head, double shift, const char* high) {
    std::string text = std::string(head) + "\n";
    for (int i = 0; i < 300; ++i) {
      const double x = static_cast<double>(i * 37 % 300) / 150 - 1;
      text += fmt::format("{:.3f},{:.3f},{}\n", x + shift, 0.5 * static_cast<double>(i % 7), x > 0.3 ? high : "low");
    }
    put(folder / name, text);
  };
  put_columns("t.csv", "x, z, class", 0, "high");
  const Ended trained = run(folder, uci({"--data=t.csv", "--label=class", "--model.first=8", "--model.hidden=8",
                                         "--steps=80", "--batch=16", "--optim.rate=1e-2", "--out=out"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto asked = [&](const char* file) {
    return run(folder, uci({"--evaluate=out", fmt::format("--data={}", file)}));
  };
  const Ended same = asked("t.csv");
  ASSERT_EQ(same.code, 0) << same.err;
  put_columns("shifted.csv", "x,z,class", 5, "high");
  const Ended shifted = asked("shifted.csv");
  ASSERT_EQ(shifted.code, 0) << shifted.err;
  EXPECT_NE(shifted.out, same.out);  // all of its rows lie beyond 0.3
  put_columns("named.csv", "x,y,class", 0, "high");
  EXPECT_NE(asked("named.csv").err.find("of its columns number 1 is 'z', but 'y' here"), std::string::npos);
  put_columns("classes.csv", "x,z,class", 0, "top");
  EXPECT_NE(asked("classes.csv").err.find("of its classes number 0 is 'high', but 'low' here"), std::string::npos)
      << asked("classes.csv").err;
  const Ended split = run(folder, uci({"--evaluate=out", "--csv.split-seed=7"}));
  EXPECT_EQ(split.code, 0);
  EXPECT_NE(split.err.find("csv.split-seed is 7 but was "), std::string::npos) << split.err;
  for (const char* asks : {"--evaluate=out", "--predict=out", "--bench"}) {
    EXPECT_NE(run(folder, uci({asks, "--data=t.csv", "--label=class", "--sweep.hidden=4"}))
                  .err.find("--sweep: trains networks"),
              std::string::npos)
        << asks;
  }
}

// Answers may be written again, and so may other files that training has not made.
TEST(Answers, DoNotChangeTheRunThatGivesThem) {
  const TemporaryFolder folder;
  put_table(folder);
  const std::vector<std::string> sizes = {"--data=t.csv",    "--label=-1",       "--csv.test-share=0.2",
                                          "--model.first=8", "--model.hidden=8", "--batch=16",
                                          "--out=out"};
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), sizes.begin(), sizes.end());
    return run(folder, uci(more));
  };
  ASSERT_EQ(train({"--steps=10"}).code, 0);
  ASSERT_EQ(run(folder, uci({"--predict=out"})).code, 0);
  const std::string first = contents(folder / "out/predictions.tsv");
  const Ended longer = train({"--steps=60", "--resume", "--trace=out/trace.json"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  ASSERT_EQ(run(folder, uci({"--predict=out"})).code, 0);
  EXPECT_NE(contents(folder / "out/predictions.tsv"), first);
  const Ended again = train({"--steps=60", "--resume"});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST(Answers, OfWeightsThatAreNoNumbersAreRefused) {
  const TemporaryFolder folder;
  put_table(folder);
  const std::vector<std::string> sizes = {"--data=t.csv", "--label=-1", "--model.first=8",     "--model.hidden=8",
                                          "--batch=16",   "--steps=10", "--csv.test-share=0.2"};
  const auto trained = [&](std::vector<std::string> more) {
    more.insert(more.end(), sizes.begin(), sizes.end());
    return run(folder, uci(more));
  };
  ASSERT_EQ(trained({"--out=out"}).code, 0);
  State state = State::load(folder / "out/checkpoint-best");
  std::string weights;
  for (const auto& [name, tensor] : state.tensors) {
    if (tensor.dtype() == DType::f32 && tensor.size() > 2) weights = name;
  }
  const Tensor spoilt = state.tensors.at(weights).view({state.tensors.at(weights).size()});
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    spoilt.slice(0, 1, 2).fill_(value);
    state.save(folder / "out/checkpoint-best");
    const std::string why =
        fmt::format("checkpoint-best: tensor '{}': element 1 of {} is infinite or no number;", weights, spoilt.size());
    for (const Ended& ended : {run(folder, uci({"--evaluate=out"})), run(folder, uci({"--predict=out"})),
                               trained({"--init=out/checkpoint-best", "--out=next"})}) {
      EXPECT_EQ(ended.code, 2) << ended.err;
      EXPECT_NE(ended.err.find(why), std::string::npos) << ended.err << why;
    }
  }
}

TEST(Answers, AFolderThatCannotBeWrittenIsToldFirst) {
  const TemporaryFolder folder;
  put_table(folder);
  ASSERT_EQ(run(folder, uci({"--data=t.csv", "--label=-1", "--csv.test-share=0.2", "--model.first=8",
                             "--model.hidden=8", "--steps=1", "--batch=16", "--out=out"}))
                .code,
            0);
  std::filesystem::remove(folder / "t.csv");
  const auto allow = [&](const std::string& name, unsigned mode) {
    std::filesystem::permissions(folder / name, static_cast<std::filesystem::perms>(mode));
  };
  std::vector<std::string> command = uci({"--predict=out"});
  uid_t user = 0;
  if (geteuid() == 0) {  // root can write into read-only folders
    user = 65534;
    std::filesystem::copy_file(command[0], folder / "uci");
    for (const char* name : {"", "uci"}) allow(name, 0755);
    command[0] = "./uci";
  }
  allow("out", 0555);
  const Ended ended = Process(command, folder.path(), {}, 0, user).wait();
  allow("out", 0755);
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("cannot write in the folder out: Permission denied; name another with --out"),
            std::string::npos)
      << ended.err;
}

TEST(Answers, MistakesAreOneLine) {
  const TemporaryFolder folder;
  const auto mistake = [&](const std::vector<std::string>& arguments, const std::string& telling) {
    const Ended ended = run_toy(folder, arguments);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(telling), std::string::npos) << ended.err;
  };
  mistake({"--evaluate=nowhere"}, "--evaluate: there is no run in nowhere");
  ASSERT_EQ(run_toy(folder, {"--out=out"}).code, 0);
  mistake({"--predict=out"}, "answers no questions");
  mistake({"--predict=out", "--evaluate=out"}, "--evaluate and --predict: name one of them");
  mistake({"--evaluate=out", "--out=there"}, "--out: leave it out; beside --evaluate, which trains nothing, it would");
  mistake({"--predict=out", "--steps=9"}, "--steps: leave it out; beside --predict, which trains nothing, it would");
  mistake({"--evaluate=out", "--resume"}, "--resume: leave it out; beside --evaluate");
  mistake({"--bench", "--out=there"}, "--out: leave it out; beside --bench");
  mistake({"--evaluate=out", "--preset=paper"}, "leave out --preset");
  const Ended good = run_toy(folder, {"--evaluate=out"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("test: loss "), std::string::npos) << good.out;
}

}  // namespace
}  // namespace bochner
