// The common frame of every experiment, through a real program: exit codes, what it prints, signals, run folders,
// resuming.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/common/config/ini.h"
#include "experiments/common/run/results.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::results_of;
using test::run_toy;
using test::TemporaryFolder;

/// The lines of a text without time values, which differ between runs.
std::string without_times(const std::string& jsonl) {
  std::string text;
  for (const MetricsLine& line : parse_metrics(jsonl)) {
    Metrics kept;
    for (const auto& value : line.metrics) {
      if (value.first != "seconds") kept.push_back(value);
    }
    text += std::to_string(line.step) + " " + line.split + " " + metrics_json(kept) + "\n";
  }
  return text;
}

void expect_same_toy_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  EXPECT_EQ(without_times(contents(a / "metrics.jsonl")), without_times(contents(b / "metrics.jsonl")));
  EXPECT_EQ(results_of(a)["metrics"], results_of(b)["metrics"]);
  const State last_a = State::load(a / "checkpoint-last");
  const State last_b = State::load(b / "checkpoint-last");
  ASSERT_EQ(last_a.tensors.size(), last_b.tensors.size());
  for (const auto& [name, tensor] : last_a.tensors) {
    EXPECT_EQ(tensor.to_vector<double>(), last_b.tensors.at(name).to_vector<double>()) << name;
  }
  EXPECT_EQ(State::load(a / "checkpoint-best").tensors.at("place").to_vector<double>(),
            State::load(b / "checkpoint-best").tensors.at("place").to_vector<double>());
}

TEST(Program, ExitCodesAndOneLine) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::vector<std::string>& arguments, int code, const std::string& err) {
    const Ended ended = run_toy(folder, arguments);
    EXPECT_EQ(ended.code, code) << ended.err;
    EXPECT_EQ(ended.err, err);
  };
  expect({"--model.dims=3"}, 2, "error: --model.dims: there is no such option; did you mean --model.dim?\n");
  expect({"--attention=softmx"}, 2,
         "error: --attention: there is no 'softmx'; did you mean 'softmax'? Valid: softmax, linear-elu, performer\n");
  expect({"--device=gpu"}, 2, "error: device: 'gpu' is none of cpu, cuda, cuda:0, cuda:1, ...\n");
  expect({"--precision=bf16"}, 2, "error: --precision=bf16: needs a card; on the CPU toy computes in f32\n");
  const Ended order = run_toy(folder, {"--out=run"}, {{"BOCHNER_BF16", "none"}});
  EXPECT_EQ(order.code, 2);
  EXPECT_EQ(
      order.err,
      "error: BOCHNER_BF16: 'none' is none of pairs, tiles; these are the orders in which products of bf16 add\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  const Ended nan = run_toy(folder, {"--model.nan-at=7", "--out=run", "--log-level=warning"});
  EXPECT_EQ(nan.code, 1);
  EXPECT_EQ(nan.err,
            "error: the loss of step 8 is nan; first layer whose output is not finite: bowl.rim; batch ids 14, 15; the "
            "checkpoints in run are good\n");
  EXPECT_EQ(State::load(folder / "run/checkpoint-last").integer("run.step"), 6);
  // With a checkpoint every 3 steps, the one at step 9 would be spoilt: the one of step 6 stays.
  const Ended spoilt = run_toy(folder, {"--model.spoil-at=8", "--out=spoilt", "--log-level=warning"});
  EXPECT_EQ(spoilt.code, 1);
  EXPECT_EQ(spoilt.err,
            "error: step 9 left 'place' with values that are not finite; first layer whose output is not finite: "
            "bowl.rim; batch ids 16, 17; the checkpoints in spoilt "
            "are good\n");
  EXPECT_EQ(State::load(folder / "spoilt/checkpoint-last").integer("run.step"), 6);
}

TEST(Program, HelpVersionAndDumpGoToStandardOutput) {
  const TemporaryFolder folder;
  const Ended help = run_toy(folder, {"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(help.err.empty()) << help.err;
  EXPECT_NE(help.out.find("Presets: onlybowl, paper"), std::string::npos) << help.out;
  const Ended version = run_toy(folder, {"--version"});
  EXPECT_EQ(version.code, 0);
  for (const char* part : {"bochner 0.", "compiler: ", "BLAS:     OpenBLAS ", ", core ", "bf16:     ", "CUDA:     "}) {
    EXPECT_NE(version.out.find(part), std::string::npos) << part << version.out;
  }
  const Ended dump = run_toy(folder, {"--dump-config", "--preset=paper", "--task=valley", "--attention=linear-elu"});
  EXPECT_EQ(dump.code, 0);
  EXPECT_TRUE(dump.out.starts_with("# A quadratic bowl, for tests\nexperiment = toy\ntask = valley\npreset = paper\n"));
  EXPECT_NE(dump.out.find("[model]\ndim = 7\nrate = 0.25\n"), std::string::npos) << dump.out;
}

TEST(Program, BlasThatIsForcedDownIsToldByVersion) {
  const TemporaryFolder folder;
  const Ended ended = run_toy(folder, {"--version"}, {{"OPENBLAS_CORETYPE", "Nehalem"}});
  if (ended.out.find("core Nehalem") == std::string::npos) GTEST_SKIP() << "this OpenBLAS has no Nehalem kernels";
  EXPECT_NE(ended.out.find("OPENBLAS_CORETYPE=Nehalem is set; unset it\n"), std::string::npos) << ended.out;
}

TEST(Program, OpenMpThatBindsThreadsToPlacesLeavesAllCores) {
  const TemporaryFolder folder;
  const auto threads_of = [&](const test::Process::Variables& variables) {
    const std::string out = run_toy(folder, {"--version"}, variables).out;
    const size_t at = out.find("threads:");
    return at == std::string::npos ? out : out.substr(at, out.find('\n', at) - at);
  };
  const std::string free = threads_of({{"OMP_NUM_THREADS", ""}});
  EXPECT_TRUE(free.starts_with("threads:")) << free;
  EXPECT_EQ(threads_of({{"OMP_NUM_THREADS", ""}, {"OMP_PROC_BIND", "true"}}), free);
  EXPECT_EQ(threads_of({{"OMP_NUM_THREADS", ""}, {"OMP_PLACES", "cores"}}), free);
}

TEST(Program, ARunLeavesACompleteFolder) {
  const TemporaryFolder folder;
  const Ended ended = run_toy(folder, {"--preset=paper", "--seed=3", "--steps=21"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto run = folder / "runs/toy/bowl-softmax-paper-seed3";
  for (const char* name : {"config.ini", "metrics.jsonl", "events.out.tfevents.bochner", "checkpoint-last",
                           "checkpoint-best", "results.json", "report.html"}) {
    EXPECT_TRUE(std::filesystem::exists(run / name)) << name;
  }
  const auto results = results_of(run);
  EXPECT_EQ(results["experiment"], "toy");
  EXPECT_EQ(results["task"], "bowl");
  EXPECT_EQ(results["protocol"], "paper");
  EXPECT_EQ(results["overrides"]["steps"], "21");
  EXPECT_EQ(results["model"]["attention"], "softmax");
  EXPECT_EQ(results["model"]["dim"], 3);
  EXPECT_EQ(results["parameters"], 3);
  EXPECT_EQ(results["seed"], 3);
  EXPECT_EQ(results["steps"], 21);
  EXPECT_EQ(results["device"], "cpu");
  EXPECT_EQ(results["paper"]["value"], 64.7);
  EXPECT_EQ(results["paper"]["source"], "No paper, Table 1");
  EXPECT_TRUE(results["build"]["blas"].get<std::string>().starts_with("OpenBLAS"));
  // The best by validation, and the test of the same model: this bowl's test loss is its validation loss + 1.
  const double valid = results["metrics"]["valid"]["loss"];
  EXPECT_NEAR(results["metrics"]["test"]["loss"].get<double>(), valid + 1, 1e-12);
  EXPECT_LE(valid, results["metrics"]["last"]["valid"]["loss"].get<double>());
  for (const MetricsLine& line : parse_metrics(contents(run / "metrics.jsonl"))) {
    if (line.split == "valid") {
      EXPECT_LE(valid, *find_metric(line.metrics, "loss"));
    }
  }
  EXPECT_NE(ended.err.find("step 5: valid loss "), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find('\033'), std::string::npos) << "no terminal, no bar";

  const RunRecord record = read_run(run);
  EXPECT_EQ(record.result.best_step, results["metrics"]["best_step"]);
  EXPECT_FALSE(record.curves.empty());
}

TEST(Program, ConfigIniRepeatsTheRun) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=a", "--model.rate=0.07", "--seed=9"}).code, 0);
  ASSERT_EQ(run_toy(folder, {"--out=b", "--config=a/config.ini"}).code, 0);
  expect_same_toy_run(folder / "a", folder / "b");
}

TEST(Program, QuietPrintsNothing) {
  const TemporaryFolder folder;
  const Ended ended = run_toy(folder, {"--quiet"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out + ended.err, "");
}

TEST(Program, ARunFolderIsNeverOverwritten) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=a", "--quiet"}).code, 0);
  const std::string before = contents(folder / "a/results.json");
  const Ended again = run_toy(folder, {"--out=a"});
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("a holds a run already; continue it with --resume"), std::string::npos) << again.err;
  EXPECT_EQ(contents(folder / "a/results.json"), before);
  // Under the default name a second run takes the next number.
  ASSERT_EQ(run_toy(folder, {"--quiet"}).code, 0);
  ASSERT_EQ(run_toy(folder, {"--quiet"}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/toy/bowl-softmax-seed1/results.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/toy/bowl-softmax-seed1-2/results.json"));
}

TEST(Program, WhatIsRefusedBeforeTheFirstStepLeavesNothing) {
  const TemporaryFolder folder;
  test::put(folder / "text", "one two\n");
  const std::vector<std::vector<std::string>> refused = {
      {BOCHNER_SPARSITY, "--batch=64", "--pairs.train-examples=4"},                 // found by the loader
      {BOCHNER_SPARSITY, "--batch=64", "--pairs.train-examples=4", "--seeds=2"},    // two folders deep
      {BOCHNER_SPARSITY, "--batch=64", "--pairs.train-examples=4", "--out=a/b/c"},  // with folders above it
      {BOCHNER_PRETRAIN, "--text=text", "--cache=cache", "--trace=trace.json"},     // the text is too short
      {BOCHNER_LRA, "--task=text", "--trace=trace.json"},                           // no data
      {BOCHNER_LRA, "--task=nonsense"},
      {BOCHNER_UCI, "--data=nowhere.csv", "--label=class", "--sweep.hidden=8"},
      {BOCHNER_BUNDLE, "--data=nowhere"},
  };
  for (const std::vector<std::string>& command : refused) {
    const Ended ended = test::run(folder, command);
    EXPECT_EQ(ended.code, 2) << ended.err;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(name == "text" || name == "cache" || name.starts_with(".std")) << command[0] << " leaves " << name;
    }
  }
  // An existing folder stays, with its contents.
  std::filesystem::create_directory(folder / "mine");
  test::put(folder / "mine/note", "");
  EXPECT_EQ(test::run(folder, {BOCHNER_SPARSITY, "--batch=64", "--pairs.train-examples=4", "--out=mine"}).code, 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "mine/note"));
  EXPECT_FALSE(std::filesystem::exists(folder / "mine/.lock"));
}

TEST(Program, ATakenFolderIsRefusedBeforeDataAreReadOrMade) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "taken");
  test::put(folder / "taken/config.ini", "");
  for (const char* program :
       {BOCHNER_LRA, BOCHNER_VIT, BOCHNER_UCI, BOCHNER_MNIST, BOCHNER_SIREN, BOCHNER_QPNN, BOCHNER_SPARSITY}) {
    const Ended ended = test::run(folder, {program, "--out=taken", "--quiet"});
    EXPECT_EQ(ended.code, 2) << program;
    EXPECT_EQ(ended.err,
              "error: taken holds a run already; continue it with --resume, or name another folder with --out\n")
        << program;
  }
  for (const char* program : {BOCHNER_UCI, BOCHNER_MNIST}) {
    const Ended ended = test::run(folder, {program, "--sweep.hidden=8,16", "--out=taken", "--quiet"});
    EXPECT_TRUE(ended.err.starts_with("error: taken is the folder of one run")) << program << ended.err;
  }
  // Nor is anything made for a run that has nothing to start with.
  const Ended lra = test::run(folder, {BOCHNER_LRA, "--init=nowhere", "--quiet"});
  EXPECT_EQ(lra.code, 2);
  EXPECT_EQ(lra.err, "error: --init: there is no nowhere; name the folder of a run, or a safetensors file\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "data"));
  // For several runs, before the first begins.
  ASSERT_EQ(run_toy(folder, {"--out=all/seed5", "--seed=5", "--quiet"}).code, 0);
  const Ended several = run_toy(folder, {"--out=all", "--seed=4", "--seeds=2"});
  EXPECT_EQ(several.code, 2);
  EXPECT_NE(several.err.find("all/seed5 holds a run already"), std::string::npos) << several.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "all/seed4"));
}

TEST(Program, NamesMayHoldAnyBytes) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--data=a\xff\xc3\xa9", "--quiet"}).code, 0);
  ASSERT_EQ(run_toy(folder, {"--out=\xfe", "--data=a\xff\xc3\xa9", "--steps=10", "--quiet"}).code, 0);
  const Ended longer = run_toy(folder, {"--out=\xfe", "--resume", "--steps=20"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  expect_same_toy_run(folder / "whole", folder / "\xfe");
  const Ended other = run_toy(folder, {"--out=\xfe", "--resume", "--data=a\xff\xc3"});
  EXPECT_EQ(other.code, 0) << other.err;  // data may have moved
}

TEST(Program, SeedsAreRunsOfTheirOwn) {
  const TemporaryFolder folder;
  const Ended ended = run_toy(folder, {"--out=all", "--seed=4", "--seeds=3"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("mean of 3 "), std::string::npos) << ended.out;
  ASSERT_EQ(run_toy(folder, {"--out=five", "--seed=5", "--quiet"}).code, 0);
  expect_same_toy_run(folder / "all/seed5", folder / "five");
}

TEST(Program, InterruptSavesAndTheRunGoesOnBitForBit) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--steps=60", "--quiet"}).code, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const std::string out = "cut" + std::to_string(signal);
    test::Process process(test::toy({"--out=" + out, "--steps=60", "--model.pause-ms=5"}), folder.path());
    ASSERT_TRUE(process.wait_for(folder / (out + "/metrics.jsonl"), "\"step\":14,"));
    process.kill(signal);
    const Ended ended = process.wait();
    ASSERT_EQ(ended.code, signal == SIGUSR1 || signal == SIGTERM ? 75 : 130) << ended.err;
    EXPECT_NE(ended.err.find("go on with: "), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find(" --resume --out " + out), std::string::npos) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(folder / (out + "/results.json")));
    const Ended resumed = run_toy(folder, {"--resume", "--out=" + out});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    expect_same_toy_run(folder / "whole", folder / out);
  }
  const std::string file = (folder / "cut2/config.ini").string();
  const Ended changed = run_toy(folder, {"--resume", "--out=cut2", "--model.rate=0.3"});
  EXPECT_EQ(changed.code, 2);
  EXPECT_NE(changed.err.find("model.rate is 0.3 but was 0.1"), std::string::npos) << changed.err;
  const Ended finished = run_toy(folder, {"--resume", "--out=cut2"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_NE(finished.err.find("is finished already"), std::string::npos) << finished.err;
  const std::string report = contents(folder / "whole/report.html");
  for (const char* resume : {"--resume", "--quiet"}) {
    const Ended below = run_toy(folder, {"--out=whole", "--seeds=2", resume});
    EXPECT_EQ(below.code, 2) << resume;
    EXPECT_EQ(below.err, "error: whole is the folder of one run; name another with --out for several\n");
  }
  EXPECT_EQ(contents(folder / "whole/report.html"), report);
}

TEST(Program, KilledAtAnyMomentItGoesOnBitForBit) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--steps=60", "--quiet"}).code, 0);
  // Not timed but counted: each life is killed when its record has grown by some lines.
  int lives = 0;
  for (const int step : {2, 10, 20, 30, 44, 58}) {
    std::vector<std::string> arguments = {"--out=cut", "--steps=60", "--model.pause-ms=2"};
    if (std::filesystem::exists(folder / "cut/config.ini")) arguments.push_back("--resume");
    test::Process process(test::toy(arguments), folder.path());
    if (!process.wait_for(folder / "cut/metrics.jsonl", "\"step\":" + std::to_string(step) + ",")) break;
    process.kill(SIGKILL);
    EXPECT_EQ(process.wait().code, -SIGKILL);
    ++lives;
  }
  EXPECT_GE(lives, 3);
  // A write cut short in the middle of a line, as a crash of the machine leaves it.
  { std::ofstream(folder / "cut/metrics.jsonl", std::ios::app) << "{\"step\":9"; }
  { std::ofstream(folder / "cut/events.out.tfevents.bochner", std::ios::app) << "torn"; }
  const Ended ended = run_toy(folder, {"--resume", "--out=cut"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  expect_same_toy_run(folder / "whole", folder / "cut");
}

TEST(Program, TwoProcessesNeverShareAFolder) {
  const TemporaryFolder folder;
  test::Process first(test::toy({"--out=a", "--steps=100000", "--model.pause-ms=5"}), folder.path());
  ASSERT_TRUE(first.wait_for(folder / "a/metrics.jsonl", "train"));
  const Ended second = run_toy(folder, {"--out=a", "--resume"});
  EXPECT_EQ(second.code, 2);
  EXPECT_NE(second.err.find("the run folder a is in use by process "), std::string::npos) << second.err;
  first.kill(SIGKILL);
  first.wait();
}

TEST(Program, AFileThatCannotBeUsedIsNamedWithTheReason) {
  const TemporaryFolder folder;
  const std::string name(300, 'x');
  const Ended ended = run_toy(folder, {"--evaluate=" + name});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.err, "error: " + name + "/config.ini: cannot be used: File name too long; choose a shorter name\n");
}

TEST(Program, AFolderThatCannotBeWrittenIsToldInOneLine) {
  const TemporaryFolder folder;
  test::put(folder / "file", "x");
  const Ended ended = run_toy(folder, {"--out=file/run"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  EXPECT_NE(ended.err.find("cannot make the run folder file/run: Not a directory"), std::string::npos) << ended.err;
}

TEST(Program, AFullDiskLosesNothing) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_toy(folder, {"--out=whole", "--steps=60", "--quiet"}).code, 0);
  // A limit on the size of files simulates a full disk: metrics.jsonl exceeds it somewhere in the middle.
  const auto whole = static_cast<rlim_t>(std::filesystem::file_size(folder / "whole/metrics.jsonl"));
  const Ended full = test::Process(test::toy({"--out=cut", "--steps=60"}), folder.path(), {}, whole / 2).wait();
  ASSERT_EQ(full.code, 1) << full.err;
  EXPECT_NE(full.err.find("File too large; make room, nothing that was saved is lost; go on with: " BOCHNER_TOY
                          " --resume --out cut\n"),
            std::string::npos)
      << full.err;
  const Ended resumed = run_toy(folder, {"--out=cut", "--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same_toy_run(folder / "whole", folder / "cut");
  // The requested length is not forgotten, and no folder without a run is named.
  ASSERT_EQ(run_toy(folder, {"--out=long", "--steps=20", "--quiet"}).code, 0);
  const Ended longer =
      test::Process(test::toy({"--out=long", "--resume", "--steps=60"}), folder.path(), {}, whole / 2).wait();
  EXPECT_EQ(longer.code, 1);
  EXPECT_NE(longer.err.find("go on with: " BOCHNER_TOY " --resume --out long --steps=60\n"), std::string::npos)
      << longer.err;
  const Ended none = test::Process(test::toy({"--out=none", "--quiet"}), folder.path(), {}, 500).wait();
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("config.ini"), std::string::npos) << none.err;
  EXPECT_EQ(none.err.find("go on with"), std::string::npos) << none.err;
}

TEST(Program, ARunOfNoStepsIsMadeLonger) {
  const TemporaryFolder folder;
  const Ended none = run_toy(folder, {"--out=a", "--steps=0", "--quiet"});
  ASSERT_EQ(none.code, 0) << none.err;
  const auto metrics = test::results_of(folder / "a")["metrics"];
  EXPECT_EQ(metrics["best_step"], 0);
  EXPECT_EQ(metrics["valid"], metrics["last"]["valid"]);
  EXPECT_EQ(contents(folder / "a/metrics.jsonl").find(R"({"step":0,"split":"valid")"), 0U)
      << contents(folder / "a/metrics.jsonl");
  const Ended longer = run_toy(folder, {"--out=a", "--steps=20", "--resume"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  ASSERT_EQ(run_toy(folder, {"--out=b", "--steps=20", "--quiet"}).code, 0);
  EXPECT_EQ(test::results_of(folder / "a")["metrics"]["last"], test::results_of(folder / "b")["metrics"]["last"]);
}

TEST(Program, ADamagedCheckpointIsRefused) {
  const TemporaryFolder folder;
  test::Process process(test::toy({"--out=a", "--steps=1000", "--model.pause-ms=2"}), folder.path());
  ASSERT_TRUE(process.wait_for(folder / "a/metrics.jsonl", "\"step\":14,"));
  process.kill(SIGKILL);
  process.wait();
  std::string bytes = contents(folder / "a/checkpoint-last");
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  test::put(folder / "a/checkpoint-last", bytes);
  const Ended ended = run_toy(folder, {"--out=a", "--resume"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("checkpoint-last"), std::string::npos) << ended.err;
}

TEST(Program, TraceIsWrittenWithATable) {
  const TemporaryFolder folder;
  const Ended ended = run_toy(folder, {"--trace=out.json", "--log-level=warning"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(nlohmann::json::parse(contents(folder / "out.json")).contains("traceEvents"));
  EXPECT_NE(ended.out.find("share"), std::string::npos) << ended.out;
  const Ended nowhere = run_toy(folder, {"--trace=nowhere/out.json", "--out=traced"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_EQ(nowhere.err, "error: trace: cannot write nowhere/out.json: No such file or directory\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "traced"));
}

}  // namespace
}  // namespace bochner
