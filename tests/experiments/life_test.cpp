// Programs that are asked to stop, or killed, at any moment: while they make data, train, measure and write results.
// When continued, they arrive at the same bytes, and no file is left over.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "engine/io/sha256.h"
#include "engine/random.h"
#include "engine/sanitizer.h"
#include "experiments/common/run/results.h"
#include "experiments/common/run/state.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Clock;
using test::contents;
using test::Ended;
using test::Process;
using test::run_toy;
using test::seconds_since;
using test::TemporaryFolder;
using test::toy;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// All files below the folder, including hidden ones.
std::set<std::string> files_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    names.insert(std::filesystem::relative(entry.path(), folder).string());
  }
  return names;
}

/// All tensors of the checkpoint: the model, the optimizer's moments, random features.
std::string weights(const std::filesystem::path& checkpoint) {
  Sha256 hash;
  for (const auto& [name, tensor] : State::load(checkpoint).tensors) {
    hash.update(bytes_of(name));
    hash.update(bytes_of(tensor));
  }
  return hash.hex();
}

/// The record of a run without its times.
std::string record(const std::filesystem::path& folder) {
  std::string text;
  for (const MetricsLine& line : parse_metrics(contents(folder / "metrics.jsonl"))) {
    text += std::to_string(line.step) + " " + line.split;
    for (const auto& [name, value] : line.metrics) {
      if (name != "seconds") text += fmt::format(" {} {}", name, value);
    }
    text += "\n";
  }
  return text;
}

/// Equal except for the times, with the same files.
void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  EXPECT_EQ(files_in(a), files_in(b));
  EXPECT_EQ(record(a), record(b));
  for (const char* name : {"checkpoint-last", "checkpoint-best"}) EXPECT_EQ(weights(a / name), weights(b / name)) << b;
  const TrainResult first = read_run(a).result;
  const TrainResult second = read_run(b).result;
  EXPECT_EQ(first.valid, second.valid);
  EXPECT_EQ(first.test, second.test);
  EXPECT_EQ(first.test_last, second.test_last);
}

std::vector<std::string> lra(const std::string& data, const std::string& out, bool resume) {
  std::vector<std::string> command = {BOCHNER_LRA,
                                      "--data=" + data,
                                      "--out=" + out,
                                      "--listops.min-tokens=5",
                                      "--listops.max-tokens=30",
                                      "--listops.max-length=30",
                                      "--listops.train-examples=4000",
                                      "--listops.valid-examples=200",
                                      "--listops.test-examples=800",
                                      "--model.layers=1",
                                      "--model.dim=16",
                                      "--model.hidden=16",
                                      "--model.classifier=0",
                                      "--model.features=8",
                                      "--model.redraw=7",
                                      "--optim.evaluate-every=20",
                                      "--optim.rate=1e-3",
                                      "--batch=8",
                                      "--steps=100",
                                      "--threads=1"};
  if (resume) command.emplace_back("--resume");
  return command;
}

// With BOCHNER_KILLS=200 in the environment, it is killed that often.
TEST(Life, KilledAtRandomMomentsItGoesOnBitForBitAndLeavesNothing) {
  const TemporaryFolder folder;
  const auto begin = Clock::now();
  ASSERT_EQ(Process(lra("data", "whole", false), folder.path()).wait().code, 0);
  const double duration = seconds_since(begin);
  const std::set<std::string> data = files_in(folder / "data");

  const char* const asked = std::getenv("BOCHNER_KILLS");
  const int wanted = asked != nullptr ? std::atoi(asked) : kAddressSanitizer ? 4 : 20;
  Generator moments(20);
  int signals = 0;
  std::map<std::string, int> ends;
  for (int run = 0; signals < wanted; ++run) {
    const std::string out = "cut" + std::to_string(run);
    const std::string made = "data" + std::to_string(run);
    for (bool done = false; !done;) {
      const bool resume = std::filesystem::exists(folder / (out + "/config.ini"));
      Process process(lra(made, out, resume), folder.path());
      if (signals < wanted) {
        const int signal = std::array{SIGKILL, SIGTERM, SIGHUP}[static_cast<size_t>(signals) % 3];
        // Some time after it started, or started to make data, to train, or to measure on the test set.
        const char* const begun = std::array{"", "listops: making ", " steps, into ", "step 100: valid"}.at(
            static_cast<size_t>(moments.uniform() * 4));
        const bool made_all = std::filesystem::exists(folder / (made + "/listops-5-30/manifest.json"));
        const std::string mark = made_all && begun[0] == 'l' ? " steps, into " : begun;
        if (!mark.empty()) process.wait_for(process.err(), mark);
        sleep_for(moments.uniform() * duration * (mark.empty() || mark[0] == ' ' ? 1 : 0.1));
        process.kill(signal);
      }
      const Ended ended = process.wait();
      if (ended.code != 0) ++signals;
      const bool killed = ended.code == -SIGKILL || ended.code == -SIGTERM || ended.code == -SIGHUP;
      ASSERT_TRUE(ended.code == 0 || ended.code == 130 || ended.code == 75 || killed)
          << ended.code << ": " << ended.err;
      const auto said = [&](const char* text) { return ended.err.find(text) != std::string::npos; };
      const char* const phase = said("step 100: valid") ? " at the test"
                                : said(" steps, into ") ? " in training and validation"
                                : said(": making ")     ? " making data"
                                                        : " before";
      ++ends[std::to_string(ended.code) + (ended.code == 0 ? "" : phase)];
      done = ended.code == 0;
    }
    expect_same_run(folder / "whole", folder / out);
    EXPECT_EQ(files_in(folder / made), data);
    for (const std::string& file : data) {
      if (std::filesystem::is_regular_file(folder / ("data/" + file))) {
        EXPECT_EQ(contents(folder / ("data/" + file)), contents(folder / (made + "/" + file))) << file;
      }
    }
    std::filesystem::remove_all(folder / made);
    std::filesystem::remove_all(folder / out);
  }
  for (const auto& [end, count] : ends) RecordProperty("ended " + end, count);
  if (asked != nullptr) {
    for (const auto& [end, count] : ends) fmt::print("{} ended with {}\n", count, end);
  }
}

TEST(Life, MakingDataStopsAtOnceAndLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const TemporaryFolder folder;
    std::vector<std::string> command = lra("data", "run", false);
    for (std::string& word : command) {
      if (word.starts_with("--listops.train-examples")) word = "--listops.train-examples=5000000";
      if (word.starts_with("--listops.max-tokens")) word = "--listops.max-tokens=2000";
    }
    Process process(command, folder.path());
    while (!std::filesystem::exists(folder / "data/listops-5-2000/.making")) sleep_for(0.001);
    sleep_for(0.05);
    const auto begin = Clock::now();
    process.kill(signal);
    const Ended ended = process.wait();
    EXPECT_LT(seconds_since(begin), 2);
    EXPECT_EQ(ended.code, signal == SIGUSR1 || signal == SIGTERM ? 75 : 130) << ended.err;
    EXPECT_TRUE(ended.err.ends_with(" ...\nwarning: interrupted; nothing was written\n")) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "data"));
  }
}

TEST(Life, MeasuringShowsHowFarItIsAndStopsInTheMiddle) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--steps=8", "--quiet"}).code, 0);
  for (const char* split : {"valid", "test"}) {
    const std::string out = std::string("cut-") + split;
    Process process(toy({"--out=" + out, "--steps=8", "--model.evaluation-ms=1100"}), folder.path());
    const bool validates = split == std::string("valid");
    const std::string before = validates ? "measuring on valid 1/3 (33%)\n" : "step 8: valid";
    ASSERT_TRUE(process.wait_for(process.err(), before)) << contents(process.err());
    const auto begin = Clock::now();
    process.kill(SIGINT);
    const Ended ended = process.wait();
    EXPECT_LT(seconds_since(begin), 2);
    ASSERT_EQ(ended.code, 130) << ended.err;
    EXPECT_NE(ended.err.find(" --resume --out " + out + "\n"), std::string::npos) << ended.err;
    const State last = State::load(folder / (out + "/checkpoint-last"));
    EXPECT_EQ(last.integer("run.step"), validates ? 5 : 8);
    const Ended resumed = run_toy(folder, {"--out=" + out, "--resume", "--model.evaluation-ms=0"});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    expect_same_run(folder / "whole", folder / out);
  }
}

TEST(Life, ABestModelThatIsNotYetWrittenIsMadeAgain) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--quiet"}).code, 0);
  // It cannot be written, which ends the run in place of a kill.
  std::filesystem::create_directories(folder / "cut/checkpoint-best");
  EXPECT_NE(run_toy(folder, {"--out=cut"}).code, 0);
  const State last = State::load(folder / "cut/checkpoint-last");
  EXPECT_EQ(last.integer("run.step"), 5);
  ASSERT_EQ(last.integer("run.best_step"), 5);
  std::filesystem::remove(folder / "cut/checkpoint-best");
  ASSERT_EQ(run_toy(folder, {"--out=cut", "--resume", "--quiet"}).code, 0);
  expect_same_run(folder / "whole", folder / "cut");
  // If there is one from an earlier evaluation, it is replaced.
  ASSERT_EQ(run_toy(folder, {"--out=parts", "--steps=10", "--quiet"}).code, 0);
  const std::string before = contents(folder / "parts/checkpoint-best");
  ASSERT_EQ(run_toy(folder, {"--out=parts", "--resume", "--steps=20", "--quiet"}).code, 0);
  test::put(folder / "parts/checkpoint-best", before);
  std::filesystem::remove(folder / "parts/results.json");
  ASSERT_EQ(run_toy(folder, {"--out=parts", "--resume", "--quiet"}).code, 0);
  expect_same_run(folder / "whole", folder / "parts");
}

// An older version wrote the best model before checkpoint-last, and may have been killed in between.
TEST(Life, ResultsAreOfOneModelWhereTheBestOneIsLost) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& out, const std::string& steps) {
    const Ended ended = run_toy(folder, {"--out=" + out, "--steps=" + steps, "--evaluate-every=1", "--resume=auto"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.err;
  };
  run("whole", "24");
  run("a", "20");
  ASSERT_EQ(read_run(folder / "a").result.best_step, 18);
  for (const char* name : {"same", "shorter"}) {
    std::filesystem::copy(folder / "a", folder / name, std::filesystem::copy_options::recursive);
    std::filesystem::remove(folder / (name + std::string("/results.json")));
  }
  run("a", "24");
  ASSERT_EQ(read_run(folder / "a").result.best_step, 23);
  for (const char* name : {"same", "shorter"}) {
    std::filesystem::copy(folder / "a/checkpoint-best", folder / (name + std::string("/checkpoint-best")),
                          std::filesystem::copy_options::overwrite_existing);
  }
  // Its evaluation comes again.
  run("same", "24");
  expect_same_run(folder / "whole", folder / "same");
  // It does not come again, and the one that comes is worse than the lost one.
  const std::string err = run("shorter", "21");
  EXPECT_NE(err.find("warning: shorter/checkpoint-best: is of step 23"), std::string::npos) << err;
  const TrainResult result = read_run(folder / "shorter").result;
  EXPECT_EQ(result.best_step, 21);
  EXPECT_EQ(State::load(folder / "shorter/checkpoint-best").integer("run.step"), 21);
  EXPECT_NEAR(*find_metric(result.test, "loss"), *find_metric(result.valid, "loss") + 1, 1e-9);
}

// Stopped within an evaluation, then killed by an older version between the checkpoint of the best model, which that
// evaluation chose when the run continued, and checkpoint-last.
TEST(Life, ABestModelOfAnEvaluationThatComesAgainIsNoDamage) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--steps=8", "--quiet"}).code, 0);
  Process process(toy({"--out=cut", "--steps=8", "--model.evaluation-ms=1100"}), folder.path());
  ASSERT_TRUE(process.wait_for(process.err(), "step 8/8 (100%)")) << contents(process.err());
  process.kill(SIGINT);
  ASSERT_EQ(process.wait().code, 130);
  const State last = State::load(folder / "cut/checkpoint-last");
  ASSERT_EQ(last.integer("run.step"), 8);
  ASSERT_EQ(last.integer("run.best_step"), 5);
  std::filesystem::copy(folder / "cut", folder / "killed", std::filesystem::copy_options::recursive);
  ASSERT_EQ(run_toy(folder, {"--out=cut", "--resume", "--model.evaluation-ms=0"}).code, 0);
  ASSERT_EQ(State::load(folder / "cut/checkpoint-best").integer("run.step"), 8);
  std::filesystem::copy(folder / "cut/checkpoint-best", folder / "killed/checkpoint-best",
                        std::filesystem::copy_options::overwrite_existing);
  const Ended resumed = run_toy(folder, {"--out=killed", "--resume", "--model.evaluation-ms=0"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same_run(folder / "whole", folder / "killed");
}

TEST(Life, ASecondInterruptEndsAtOnceButTwoAtATimeAreOne) {
  const TemporaryFolder folder;
  Process slow(toy({"--out=slow", "--model.pause-ms=900"}), folder.path());
  ASSERT_TRUE(slow.wait_for(folder / "slow/config.ini", "steps"));
  sleep_for(0.1);
  for (const int signal : {SIGINT, SIGINT, SIGHUP, SIGTERM, SIGTERM}) slow.kill(signal);  // as timeout(1) and shells do
  const Ended saved = slow.wait();
  EXPECT_EQ(saved.code, 130);
  EXPECT_NE(saved.err.find("interrupted at step "), std::string::npos) << saved.err;

  Process stuck(toy({"--out=stuck", "--model.pause-ms=60000"}), folder.path());
  ASSERT_TRUE(stuck.wait_for(folder / "asleep", "step"));
  const auto begin = Clock::now();
  stuck.kill(SIGINT);
  sleep_for(0.4);
  stuck.kill(SIGINT);
  const Ended ended = stuck.wait();
  EXPECT_LT(seconds_since(begin), 5);
  EXPECT_EQ(ended.code, 130);
  EXPECT_NE(ended.err.find("warning: interrupted; go on with: "), std::string::npos) << ended.err;
}

TEST(Life, SignalsThatTheCallerIgnoresStayIgnored) {
  const TemporaryFolder folder;
  const std::string command =
      std::string("trap '' HUP; exec ") + BOCHNER_TOY + " --out=a --steps=30 --model.pause-ms=10";
  Process process({"/bin/sh", "-c", command}, folder.path());
  ASSERT_TRUE(process.wait_for(folder / "a/metrics.jsonl", "train"));
  process.kill(SIGHUP);
  EXPECT_EQ(process.wait().code, 0);
}

TEST(Life, CheckpointsByTheClock) {
  const TemporaryFolder folder;
  const std::vector<std::string> rare = {"--steps=60", "--evaluate-every=1000", "--model.save-every=0"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), rare.begin(), rare.end());
    return toy(more);
  };
  ASSERT_EQ(Process(run({"--out=whole", "--quiet"}), folder.path()).wait().code, 0);
  Process process(run({"--out=cut", "--checkpoint-every=0.0005", "--model.pause-ms=20"}), folder.path());
  ASSERT_TRUE(process.wait_for(folder / "cut/metrics.jsonl", "\"step\":20,"));
  process.kill(SIGKILL);
  process.wait();
  EXPECT_GT(State::load(folder / "cut/checkpoint-last").integer("run.step"), 1);
  EXPECT_NE(contents(folder / "cut/config.ini").find("checkpoint-every = 0.0005\n"), std::string::npos);
  ASSERT_EQ(run_toy(folder, {"--out=cut", "--resume", "--checkpoint-every=0"}).code, 0);
  expect_same_run(folder / "whole", folder / "cut");
}

TEST(Life, ClosedStreamsTakeNoMessagesIntoFiles) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--quiet"}).code, 0);
  int run = 0;
  for (const std::string closed : {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    const std::string out = "closed" + std::to_string(run++);
    const std::string command = std::string("exec ") + BOCHNER_TOY + " --out=" + out + " " + closed;
    ASSERT_EQ(Process({"/bin/sh", "-c", command}, folder.path()).wait().code, 0) << closed;
    expect_same_run(folder / "whole", folder / out);
    EXPECT_LT(std::filesystem::file_size(folder / (out + "/.lock")), 12U) << contents(folder / (out + "/.lock"));
    EXPECT_EQ(std::filesystem::file_size(folder / (out + "/events.out.tfevents.bochner")),
              std::filesystem::file_size(folder / "whole/events.out.tfevents.bochner"));
  }
}

TEST(Life, ARunGoesOnWhereNobodyReadsWhatItSays) {
  const TemporaryFolder folder;
  const std::string command =
      std::string("{ ") + BOCHNER_TOY + " --out=a --model.pause-ms=100; echo $? >code; } 2>&1 | head -n 1 >line";
  ASSERT_EQ(Process({"/bin/sh", "-c", command}, folder.path()).wait().code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "a/results.json"));
}

TEST(Life, OutputThatCanNotBeWrittenIsAFailure) {
  const TemporaryFolder folder;
  for (const std::string& command :
       {std::string(BOCHNER_DATA_PROGRAM) + " check >/dev/full", std::string(BOCHNER_TOY) + " --help >/dev/full",
        std::string(BOCHNER_TOY) + " --out=a --quiet --trace=/dev/full"}) {
    const Ended ended = Process({"/bin/sh", "-c", command}, folder.path()).wait();
    EXPECT_EQ(ended.code, 1) << command;
    EXPECT_NE(ended.err.find("cannot write "), std::string::npos) << ended.err;
  }
}

TEST(Life, TooLittleAddressSpaceIsToldInPlaceOfSpinning) {
  if (kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer itself needs terabytes";
  const TemporaryFolder folder;
  const std::string command = std::string("ulimit -v 130000; exec ") + BOCHNER_TOY + " --version";
  const Ended ended = Process({"/bin/sh", "-c", command}, folder.path()).wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("error: the limit on memory (ulimit -v or -d) is too low"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace bochner
