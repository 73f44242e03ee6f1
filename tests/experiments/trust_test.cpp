// When a run folder is trusted: continued runs, with the settings, files and data with which they began.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "engine/io/elements.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/idx.h"
#include "engine/io/sha256.h"
#include "experiments/common/run/results.h"
#include "experiments/common/run/state.h"
#include "experiments/common/run/stored_run.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::results_of;
using test::run_toy;
using test::TemporaryFolder;

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(bytes_of(text));
  return hash.hex();
}

/// Exit code 2, and one line that contains all of these.
void expect_refused(const Ended& ended, const std::vector<std::string>& telling) {
  EXPECT_EQ(ended.code, 2) << ended.err;
  for (const std::string& text : telling)
    EXPECT_NE(ended.err.find(text), std::string::npos) << text << "\n" << ended.err;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// A run of the toy in the folder `name`, as left by a kill between its last checkpoint and its results.
void put_unfinished(const TemporaryFolder& folder, const std::string& name, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--out=" + name, "--quiet"});
  const Ended ended = run_toy(folder, more);
  ASSERT_EQ(ended.code, 0) << ended.err;
  fs::remove(folder / (name + "/results.json"));
}

Ended resumed(const TemporaryFolder& folder, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--resume", "--out=a"});
  return run_toy(folder, more);
}

TEST(Trust, WhatTheCheckpointHoldsWins) {
  const TemporaryFolder folder;
  put_unfinished(folder, "a");
  const std::string config = contents(folder / "a/config.ini");
  for (const auto& [from, to, told] : {std::tuple{"rate = 0.1", "rate = 0.2", "model.rate is 0.2 there, but 0.1 in"},
                                       {"batch = 32", "batch = 23", "batch is 23 there, but 32 in"},
                                       {"seed = 1\n", "seed = 2\n", "seed is 2 there, but 1 in"},
                                       {"steps = 20", "steps = 30", "steps is 30 there, but 20 in"}}) {
    put(folder / "a/config.ini", replaced(config, from, to));
    expect_refused(resumed(folder), {"a/config.ini", told, "remove it to go on"});
  }
  put(folder / "a/config.ini", config.substr(0, config.size() / 2));  // cut
  expect_refused(resumed(folder), {"a/config.ini"});
  put(folder / "a/config.ini", replaced(config, "# A quadratic", "# A kuadratic"));
  expect_refused(resumed(folder), {"a/config.ini", "line 1"});
  State damaged = State::load(folder / "a/checkpoint-last");
  const State good = damaged;
  damaged.set("run.config", std::string("x\n"));
  damaged.save(folder / "a/checkpoint-last");
  expect_refused(resumed(folder), {"error: a/checkpoint-last: run.config:1: "});
  good.save(folder / "a/checkpoint-last");
  put(folder / "a/config.ini", config);
  expect_refused(resumed(folder, {"--model.rate=0.3"}), {"model.rate is 0.3 but was 0.1"});
  expect_refused(Process(test::toy({"--resume", "--out=a"}), folder.path(), {{"BOCHNER_BATCH", "7"}}).wait(),
                 {"batch is 7 but was 32"});
  fs::remove(folder / "a/config.ini");
  expect_refused(run_toy(folder, {"--out=a", "--model.rate=0.3"}), {"a holds a run already"});
  const Ended ended = resumed(folder);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(contents(folder / "a/config.ini"), config);
}

TEST(Trust, AFinishedRunGetsItsConfigAgain) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=a", "--quiet"}).code, 0);
  const std::string config = contents(folder / "a/config.ini");
  fs::remove(folder / "a/config.ini");
  expect_refused(run_toy(folder, {"--evaluate=a"}),
                 {"--evaluate: a/config.ini is missing", "written again by --resume --out=a"});
  const Ended ended = resumed(folder);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("a is finished already"), std::string::npos) << ended.err;
  EXPECT_EQ(contents(folder / "a/config.ini"), config);
  EXPECT_EQ(run_toy(folder, {"--evaluate=a"}).err, "");
  for (const char* instead : {"# rum ", "# run 0"}) {
    put(folder / "a/config.ini", replaced(config, "# run ", instead));
    const Ended evaluated = run_toy(folder, {"--evaluate=a"});
    EXPECT_EQ(evaluated.code, 0);
    EXPECT_NE(evaluated.err.find("warning: a/config.ini: was changed since the run wrote it"), std::string::npos)
        << evaluated.err;
  }
  fs::remove(folder / "a/config.ini");
  fs::remove(folder / "a/checkpoint-last");
  expect_refused(resumed(folder), {"a/config.ini is missing, and checkpoint-last", "restore one of them"});
  fs::create_directories(folder / "runs/toy");
  fs::rename(folder / "a", folder / "runs/toy/bowl-softmax-seed1");
  expect_refused(run_toy(folder, {"--resume"}), {"bowl-softmax-seed1/config.ini is missing, and checkpoint-last"});
}

TEST(Trust, WithoutACheckpointTheConfigSpeaksForItself) {
  const TemporaryFolder folder;
  put_unfinished(folder, "a");
  fs::remove(folder / "a/checkpoint-last");
  const std::string config = contents(folder / "a/config.ini");
  put(folder / "a/config.ini", replaced(config, "rate = 0.1", "rate = 0.2"));
  expect_refused(resumed(folder), {"a/config.ini", "the hash of its lines"});
  put(folder / "a/config.ini", replaced(config, "# run ", "# rum "));
  expect_refused(resumed(folder), {"a/config.ini", "# run"});
  put(folder / "a/config.ini", config);
  expect_refused(resumed(folder), {"a/checkpoint-last is missing", "--init=a/checkpoint-best"});
  fs::remove(folder / "a/checkpoint-best");  // it had not made one yet
  EXPECT_EQ(resumed(folder).code, 0);
  // A changed copy may serve as the settings of another run, which reports this.
  put(folder / "copy.ini", replaced(config, "rate = 0.1", "rate = 0.2"));
  const Ended other = run_toy(folder, {"--config=copy.ini", "--out=b"});
  EXPECT_EQ(other.code, 0);
  EXPECT_NE(other.err.find("warning: copy.ini: was changed since the run wrote it"), std::string::npos) << other.err;
}

TEST(Trust, FilesOfAnotherRunAreRefused) {
  const TemporaryFolder folder;
  put_unfinished(folder, "a", {"--evaluate-every=1"});  // whose last model is not the best
  put_unfinished(folder, "b", {"--evaluate-every=1"});  // the same in all but its id
  for (const char* name : {"config.ini", "checkpoint-last", "checkpoint-best", "metrics.jsonl"}) {
    const std::string own = contents(folder / "a" / name);
    put(folder / "a" / name, contents(folder / "b" / name));
    expect_refused(resumed(folder), {name});
    put(folder / "a" / name, own);
  }
  fs::remove(folder / "a/checkpoint-best");
  expect_refused(resumed(folder), {"a/checkpoint-best is missing"});
}

TEST(Trust, ARunIsMadeLongerOnPurpose) {
  const TemporaryFolder folder;
  const auto curves = [&](const std::string& name) {
    return std::regex_replace(contents(folder / (name + "/metrics.jsonl")), std::regex(",\"seconds\":[^,}]*"), "");
  };
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--steps=60", "--quiet"}).code, 0);
  for (const bool finished : {true, false}) {
    fs::remove_all(folder / "a");
    ASSERT_EQ(run_toy(folder, {"--out=a", "--steps=20", "--quiet"}).code, 0);
    if (!finished) fs::remove(folder / "a/results.json");
    expect_refused(resumed(folder, {"--steps=10"}), {"steps is 10 but was 20"});
    const Ended longer = resumed(folder, {"--steps=60"});
    ASSERT_EQ(longer.code, 0) << longer.err;
    EXPECT_EQ(longer.err.find("warning"), std::string::npos) << longer.err;
    EXPECT_EQ(curves("a"), curves("whole"));
    EXPECT_EQ(results_of(folder / "a")["metrics"], results_of(folder / "whole")["metrics"]);
    EXPECT_EQ(State::load(folder / "a/checkpoint-last").tensors.at("momentum").to_vector<double>(),
              State::load(folder / "whole/checkpoint-last").tensors.at("momentum").to_vector<double>());
    EXPECT_NE(contents(folder / "a/config.ini").find("\nsteps = 60\n"), std::string::npos);
    EXPECT_EQ(resumed(folder).code, 0);
  }
  // Killed between the checkpoint and config.ini, it goes on.
  const StoredRun stored = *StoredRun::of(folder / "a");
  put(folder / "a/config.ini", stored.config);
  fs::remove_all(folder / "a");
  ASSERT_EQ(run_toy(folder, {"--out=a", "--steps=20", "--quiet"}).code, 0);
  const std::string before = contents(folder / "a/config.ini");
  ASSERT_EQ(resumed(folder, {"--steps=21", "--quiet"}).code, 0);
  put(folder / "a/config.ini", before);
  fs::remove(folder / "a/results.json");
  EXPECT_EQ(resumed(folder).code, 0);
  EXPECT_NE(contents(folder / "a/config.ini").find("\nsteps = 21\n"), std::string::npos);
  // The last step is logged and evaluated. If the longer run would not have done so, this is reported.
  const Ended odd = resumed(folder, {"--steps=40"});
  EXPECT_EQ(odd.code, 0);
  EXPECT_NE(odd.err.find("warning: step 21 was logged and evaluated as the last one"), std::string::npos) << odd.err;
  // A run that was stopped before has no last step.
  Process begun(test::toy({"--out=b", "--steps=1000", "--model.pause-ms=2"}), folder.path());
  ASSERT_TRUE(begun.wait_for(folder / "b/metrics.jsonl", "\"step\":14,"));
  begun.kill(SIGKILL);
  begun.wait();
  const Ended stopped = run_toy(folder, {"--out=b", "--resume", "--steps=1001", "--model.pause-ms=0"});
  EXPECT_EQ(stopped.code, 0);
  EXPECT_EQ(stopped.err.find("as the last one"), std::string::npos) << stopped.err;
  // In the default folder, only the command line makes a run longer, not the default.
  ASSERT_EQ(run_toy(folder, {"--steps=10", "--quiet"}).code, 0);
  expect_refused(run_toy(folder, {"--resume"}), {"steps is 20 but was 10", "with --steps on the command line"});
  EXPECT_EQ(run_toy(folder, {"--resume", "--steps=20"}).code, 0);
}

TEST(Trust, ResumeAutoContinuesOrStarts) {
  const TemporaryFolder folder;
  for (const std::vector<std::string>& which : {std::vector<std::string>{"--out=a"},
                                                {},
                                                {"--attention=softmax,performer", "--out=both"},
                                                {"--attention=softmax,performer"},
                                                {"--seeds=2", "--out=seeds"},
                                                {"--seeds=2"}}) {
    std::vector<std::string> command = {"--resume=auto", "--steps=12"};
    command.insert(command.end(), which.begin(), which.end());
    const Ended first = run_toy(folder, command);
    EXPECT_EQ(first.code, 0) << first.err;
    EXPECT_EQ(first.err.find("finished already"), std::string::npos) << first.err;
    const Ended second = run_toy(folder, command);
    EXPECT_EQ(second.code, 0) << second.err;
    EXPECT_NE(second.err.find("finished already"), std::string::npos) << second.err;
  }
  test::Process process(test::toy({"--resume=auto", "--out=cut", "--steps=60", "--model.pause-ms=5"}), folder.path());
  ASSERT_TRUE(process.wait_for(folder / "cut/metrics.jsonl", "\"step\":14,"));
  process.kill(SIGKILL);
  process.wait();
  const Ended ended = run_toy(folder, {"--resume=auto", "--out=cut"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("continuing cut at step 1"), std::string::npos) << ended.err;
}

TEST(Trust, InitTakesTheWeightsOfAnotherRun) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=a", "--quiet"}).code, 0);
  const Ended ended = run_toy(folder, {"--out=b", "--init=a", "--steps=0"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto results = results_of(folder / "b");
  EXPECT_EQ(results["metrics"]["test"], results_of(folder / "a")["metrics"]["test"]);
  EXPECT_EQ(results["init"]["file"], "a/checkpoint-best");
  EXPECT_EQ(results["init"]["run"], results_of(folder / "a")["run"]);
  EXPECT_EQ(results["init"]["step"], 20);
  // When continued, it reports the same and no longer needs the other run.
  ASSERT_EQ(run_toy(folder, {"--out=c", "--init=a", "--steps=5", "--quiet"}).code, 0);
  fs::rename(folder / "a", folder / "moved");
  fs::remove(folder / "c/results.json");
  ASSERT_EQ(run_toy(folder, {"--out=c", "--resume"}).code, 0);
  EXPECT_EQ(results_of(folder / "c")["init"]["file"], "a/checkpoint-best");
  expect_refused(run_toy(folder, {"--out=d", "--init=moved", "--model.dim=4"}),
                 {"--init: moved/checkpoint-best", "place is f64 (3,) cpu there, f64 (4,) cpu here", "begin anew"});
  expect_refused(run_toy(folder, {"--out=e", "--init=nowhere"}), {"nowhere"});
  write_safetensors(folder / "more", {{"place", Tensor::zeros({3}, DType::f64)}, {"head", Tensor::zeros({2})}});
  const Ended more = run_toy(folder, {"--out=f", "--init=more"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.err.find("warning: --init: more holds unused tensors: 'head"), std::string::npos) << more.err;
  write_safetensors(folder / "other", {{"head", Tensor::zeros({2})}});
  expect_refused(run_toy(folder, {"--out=g", "--init=other"}), {"none of the model's tensors", "head", "place"});
}

TEST(Trust, ResultsSayWhenWhereAndInWhichForm) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=a", "--quiet"}).code, 0);
  const auto results = results_of(folder / "a");
  EXPECT_EQ(results["schema"], kResultsSchema);
  EXPECT_TRUE(
      std::regex_match(results["date"].get<std::string>(), std::regex("20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ")));
  EXPECT_EQ(results["host"], host_name());
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(results["run"], StoredRun::of(folder / "a")->id);
}

/// Two classes by the sign of x.
std::string table(int rows) {
  std::string text = "x,y,class\n";
  for (int i = 0; i < rows; ++i) text += fmt::format("{}.5,{},{}\n", i % 7 - 3, i % 5, i % 7 < 3 ? "left" : "right");
  return text;
}

std::vector<std::string> small_uci(const std::vector<std::string>& more) {
  std::vector<std::string> command = {BOCHNER_UCI,
                                      "--data=t.csv",
                                      "--label=class",
                                      "--model.first=8",
                                      "--model.hidden=8",
                                      "--model.features=8",
                                      "--optim.rate=1e-3",
                                      "--optim.evaluate-every=10",
                                      "--optim.schedule=constant",
                                      "--steps=20",
                                      "--batch=16",
                                      "--threads=1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(Trust, DataHaveAFingerprint) {
  const TemporaryFolder folder;
  const std::string text = table(200);
  put(folder / "t.csv", text);
  const auto run = [&](const std::vector<std::string>& more) { return Process(small_uci(more), folder.path()).wait(); };
  ASSERT_EQ(run({"--out=a", "--quiet"}).code, 0);
  const auto data = results_of(folder / "a")["data"];
  ASSERT_EQ(data.size(), 1U) << data;
  EXPECT_EQ(data[0]["file"], "t.csv");
  EXPECT_EQ(data[0]["bytes"], text.size());
  EXPECT_EQ(data[0]["sha256"], sha256(text));
  EXPECT_TRUE(data[0]["published"].is_null());
  // Read through the cache, and packed under another name, they are the same data.
  ASSERT_EQ(run({"--out=b", "--quiet"}).code, 0);
  EXPECT_EQ(results_of(folder / "b")["data"], data);
  write_file_atomically(folder / "u.csv.gz", format_gzip(bytes_of(text)));
  fs::remove(folder / "a/results.json");
  const Ended moved = run({"--out=a", "--resume", "--data=u.csv.gz"});
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_EQ(results_of(folder / "a")["data"][0]["sha256"], sha256(text));
  // Changed data are refused, both by a run that continues and among finished runs.
  fs::remove(folder / "a/results.json");
  const std::string other = replaced(text, "2.5", "2.6");
  put(folder / "t.csv", other);
  for (const char* name : {"a", "b"}) {
    expect_refused(run({std::string("--out=") + name, "--resume"}), {"t.csv", sha256(text), sha256(other)});
  }
}

TEST(Trust, PublishedFilesAreKnownByTheirHash) {
  const TemporaryFolder folder;
  for (const auto& [name, count] : {std::pair{"train", 100}, std::pair{"t10k", 20}}) {
    std::vector<int64_t> labels;
    for (int i = 0; i < count; ++i) labels.push_back(i % 10);
    write_idx(folder / (std::string(name) + "-labels-idx1-ubyte"), Tensor::from(labels, {count}).cast(DType::u8));
    write_idx(folder / (std::string(name) + "-images-idx3-ubyte"), Tensor::zeros({count, 4, 4}, DType::u8));
  }
  std::filesystem::create_directory(folder / "data");
  std::filesystem::create_symlink("..", folder / "data/mnist");
  const Ended ended = Process({BOCHNER_MNIST, "--task=mnist", "--model.first=8", "--model.hidden=8",
                               "--model.features=8", "--steps=2", "--threads=1", "--out=out"},
                              folder.path())
                          .wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(results_of(folder / "out")["data"].size(), 4U);
  const std::string hash = sha256_of_file(folder / "train-images-idx3-ubyte");
  EXPECT_NE(ended.err.find("warning: data/mnist/train-images-idx3-ubyte: its SHA-256 is " + hash +
                           ", but that of mnist has "
                           "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            std::string::npos)
      << ended.err;
}

TEST(Trust, GeneratedDataHaveAFingerprint) {
  const TemporaryFolder folder;
  const Ended ended = Process({BOCHNER_SIREN, "--size=8", "--model.hidden=8", "--model.features=8", "--steps=2",
                               "--threads=1", "--out=a"},
                              folder.path())
                          .wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto data = results_of(folder / "a")["data"];
  ASSERT_EQ(data.size(), 1U);
  EXPECT_EQ(data[0]["generated"], "still-life");
  EXPECT_EQ(data[0]["bytes"], 8 * 8 * 4);
  fs::remove(folder / "a/results.json");
  const Ended other =
      Process({BOCHNER_SIREN, "--resume", "--out=a", "--data=dead-leaves", "--threads=1"}, folder.path()).wait();
  expect_refused(other, {"dead-leaves (generated)", data[0]["sha256"].get<std::string>()});
}

TEST(Trust, WhereTheScheduleDependsOnTheStepsItIsSaid) {
  const TemporaryFolder folder;
  put(folder / "t.csv", table(200));
  const auto run = [&](const std::vector<std::string>& more) {
    const Ended ended = Process(small_uci(more), folder.path()).wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.err;
  };
  const auto weights = [&](const std::string& name) {
    std::string bytes;
    for (const auto& [of, tensor] : State::load(folder / (name + "/checkpoint-last")).tensors) {
      bytes += std::string(text_of(bytes_of(tensor)));
    }
    return sha256(bytes);
  };
  for (const std::string kind : {"constant", "linear"}) {
    const std::string schedule = "--optim.schedule=" + kind;
    run({schedule, "--out=whole-" + kind, "--steps=100"});
    run({schedule, "--out=longer-" + kind, "--steps=50"});
    const std::string err = run({"--resume", "--out=longer-" + kind, "--steps=100", schedule});
    const bool said = err.find("warning: rate of step 50 was ") != std::string::npos;
    EXPECT_EQ(said, kind == "linear") << err;
    EXPECT_EQ(weights("longer-" + kind) == weights("whole-" + kind), kind == "constant");
  }
}

}  // namespace
}  // namespace bochner
