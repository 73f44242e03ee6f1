// The Turing machines of KL Theorems 1 and 2: what they compute, and what is refused. That the Transformer does the
// same after each step is checked by the program itself, which exits with 1 if it does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;

Ended turing(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BOCHNER_TURING);
  return Process(arguments, folder.path()).wait();
}

/// The line that tells how a run ended.
std::string summary(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const Ended ended = turing(folder, arguments);
  EXPECT_EQ(ended.code, 0) << ended.err;
  return ended.out;
}

TEST(TuringProgram, Increments) {
  for (const auto& [number, next] : std::vector<std::pair<std::string, std::string>>{
           {">0", ">1"}, {">1", ">10"}, {">10111", ">11000"}, {">1111", ">10000"}, {">100", ">101"}}) {
    const std::string out = summary({"--task=increment", "--input=" + number, "--quiet"});
    const size_t begin = out.find("ends as ") + 8;
    std::string tape = out.substr(begin, out.find(" in done") - begin);
    std::erase_if(tape, [](char c) { return c == '[' || c == ']' || c == '_'; });
    EXPECT_EQ(tape, next) << out;
  }
}

TEST(TuringProgram, KnowsPalindromes) {
  for (const char* word : {">", ">0", ">11", ">1001001", ">0110", ">10101"}) {
    EXPECT_NE(summary({"--task=palindrome", "--quiet", "--input", word}).find(" in yes."), std::string::npos) << word;
  }
  for (const char* word : {">01", ">100", ">1001000", ">0111"}) {
    EXPECT_NE(summary({"--task=palindrome", "--quiet", "--input", word}).find(" in no."), std::string::npos) << word;
  }
}

TEST(TuringProgram, TheBusyBeaverOfThreeStatesWritesSixOnesInFourteenSteps) {
  const TemporaryFolder folder;
  const Ended ended = turing(folder, {"--task=busy-beaver", "--out=run"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("after each of 14 steps"), std::string::npos) << ended.out;
  const size_t begin = ended.out.find("ends as");
  const std::string tape = ended.out.substr(begin, ended.out.find('\n', begin) - begin);
  EXPECT_EQ(std::count(tape.begin(), tape.end(), '1'), 6) << tape;
  const auto results = nlohmann::json::parse(test::contents(folder / "run/results.json"));
  EXPECT_EQ(results.at("figures").at(0).at("curves").at(0).at("points").size(), 15U);
  EXPECT_EQ(results.at("figures").at(0).at("curves").at(0).at("points"),
            results.at("figures").at(0).at("curves").at(1).at("points"));
  EXPECT_EQ(results.at("tables").at(0).at("rows").at(0).at(1), "14");
  EXPECT_EQ(results.at("tables").at(1).at("rows").at(0).at(2), "28");  // KL Eq. 20 counts two scalars more
}

TEST(TuringProgram, RunsAMachineOfOnesOwnAndNamesWhatIsWrongWithIt) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& rules, const std::string& input) {
    test::put(folder / "rules.txt", rules);
    return turing(folder, {"--machine=rules.txt", "--input=" + input, "--quiet", "--steps=50"});
  };
  // Eight cells walked back and forth: the latest visit is found among several.
  const std::string walker = "go a b go L\ngo e e back R  # turn\nback b a back R\nback _ _ go L\n";
  Ended ended = run(walker, "eaaaaaaa");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("after each of 50 steps"), std::string::npos) << ended.out;
  ended = turing(folder, {"--machine=rules.txt", "--input=eaaaaaaa", "--steps=50"});
  EXPECT_EQ(ended.out.find("What the papers print"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("runs/turing/own-"), std::string::npos) << ended.out;
  ended = turing(folder, {"--machine=rules.txt", "--input=a", "--task=palindrome"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("--machine: --task=palindrome has a machine of its own"), std::string::npos) << ended.err;
  ended = turing(folder, {"--task=own"});
  EXPECT_EQ(ended.err, "error: --task=own: name its file of rules by --machine\n");
  const auto refused = [&](const std::string& rules, const std::string& input, const std::string& why) {
    ended = run(rules, input);
    EXPECT_EQ(ended.code, 2);
    EXPECT_NE(ended.err.find(why), std::string::npos) << ended.err;
  };
  refused("go a b go\n", "a", "line 1: 4 words");
  refused("go a b go L\ngo a a go R\n", "a", "line 2: a second rule");
  refused("go a b go N\n", "a", "the move 'N' must be L or R");
  refused("go a b go \xff\n", "a", "the move '\\xff' must be L or R");
  refused("# nothing\n", "a", "no rules");
  refused("go a b go L\n", "x", "'x' of the input");
  refused("go a b go L\n", "a", "the head leaves the tape");
  refused("go a b go R\n", "a", "no rule for state 'go' and symbol '_'");
}

}  // namespace
}  // namespace bochner
