// The real program with any number of threads, wrong options, damaged files and full disks; life_test.cpp kills it. Its
// model is as small as possible.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine/io/safetensors.h"
#include "engine/io/sha256.h"
#include "engine/random.h"
#include "engine/sanitizer.h"
#include "experiments/common/process/arguments.h"
#include "experiments/common/run/results.h"
#include "experiments/common/run/state.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::TemporaryFolder;

std::vector<std::string> lra(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {BOCHNER_LRA,
                                      "--listops.min-tokens=5",
                                      "--listops.max-tokens=30",
                                      "--listops.max-length=30",
                                      "--listops.train-examples=200",
                                      "--listops.valid-examples=20",
                                      "--listops.test-examples=20",
                                      "--model.layers=1",
                                      "--model.dim=16",
                                      "--model.hidden=16",
                                      "--model.classifier=0",
                                      "--optim.evaluate-every=10",
                                      "--optim.rate=1e-3",
                                      "--batch=8",
                                      "--steps=50",
                                      "--threads=1"};
  const std::vector<std::string> without = {"softmax", "linear-elu"};
  if (std::find(without.begin(), without.end(), argument(arguments, "attention").value_or("")) == without.end()) {
    command.insert(command.end(), {"--model.features=8", "--model.redraw=7"});
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Ended run_lra(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  return Process(lra(arguments), folder.path()).wait();
}

TEST(LraProgram, RefusesOptionsThatNoneOfItsRunsReads) {
  const TemporaryFolder folder;
  const auto shown = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {BOCHNER_LRA, "--dump-config"});
    return Process(arguments, folder.path()).wait();
  };
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& option) {
    const Ended ended = shown(arguments);
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_EQ(ended.out, "") << option;
    EXPECT_EQ(ended.err.rfind("error: " + option + ": leave it out; it counts only with ", 0), 0U) << ended.err;
  };
  refused({"--attention=softmax", "--model.features=64"}, "--model.features");
  refused({"--task=text", "--model.pair=skyformer"}, "--model.pair");
  refused({"--attention=softmax,linear-elu", "--model.features=64"}, "--model.features");
  refused({"--attention=performer", "--model.mechanism.block=8"}, "--model.mechanism.block");
  refused({"--task=text", "--listops.max-length=64"}, "--listops.max-length");
  refused({"--task=text,image", "--listops.max-length=64"}, "--listops.max-length");
  refused({"--mask-share=0.3"}, "--mask-share");
  refused({"--learn=masked-tokens", "--temperature=1"}, "--temperature");
  refused({"--analysis.examples=5"}, "--analysis.examples");
  for (const std::vector<std::string>& read : std::vector<std::vector<std::string>>{
           {"--attention=softmax,performer", "--model.features=64"},
           {"--task=text,listops", "--listops.max-length=64", "--attention=softmax,performer", "--model.features=64"},
           {"--attention=longformer", "--model.mechanism.block=8"},
           {"--learn=masked-tokens", "--model.mask-token", "--mask-share=0.3"},
           {"--task=films", "--learn=contrastive", "--temperature=1"}}) {
    const Ended ended = shown(read);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
  }
  // A file and may serve several runs, one after the other.
  test::put(folder / "some.ini", "[model]\nfeatures = 64\n");
  EXPECT_EQ(shown({"--attention=softmax", "--config=some.ini"}).code, 0);
  EXPECT_EQ(shown({"--attention=softmax", "--preset=kl"}).code, 0);
  const Ended cycled = shown({"--optim.schedule=one-cycle", "--optim.cycle-beta1", "--optim.beta1=0.8"});
  EXPECT_EQ(cycled.code, 2);
  EXPECT_NE(cycled.err.find("--optim.beta1: leave it out; it counts only without --optim.cycle-beta1"),
            std::string::npos)
      << cycled.err;
  EXPECT_EQ(shown({"--optim.schedule=one-cycle", "--optim.beta1=0.8"}).code, 0);
}

TEST(LraProgram, RefusesMeansOfABatchThatIsTakenInParts) {
  const TemporaryFolder folder;
  const Ended ended =
      Process({BOCHNER_LRA, "--preset=quick", "--random-data", "--steps=1", "--batch=4", "--accumulate=2",
               "--model.pooled-batch-norm=true", "--listops.max-length=16", "--group-by-length=false"},
              folder.path())
          .wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("so --accumulate=2 would train another model"), std::string::npos) << ended.err;
}

TEST(LraProgram, RefusesWhatHasNoUseBesideTables) {
  const TemporaryFolder folder;
  const Ended ended = Process({BOCHNER_LRA, "--table=runs", "--resume"}, folder.path()).wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("--resume: leave it out; beside --table it would change nothing"), std::string::npos)
      << ended.err;
}

/// One line that says `telling`, and the exit code.
void expect_failure(const Ended& ended, int code, const std::string& telling) {
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_NE(ended.err.find(telling), std::string::npos) << ended.err;
  const size_t begin = ended.err.find("error: ");
  ASSERT_NE(begin, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find('\n', begin), ended.err.size() - 1) << ended.err;
}

void expect_mistake(const Ended& ended, const std::string& telling) { expect_failure(ended, 2, telling); }

/// All tensors of the checkpoint: the model, the optimizer's moments, random features.
std::string weights(const std::filesystem::path& checkpoint) {
  Sha256 hash;
  for (const auto& [name, tensor] : State::load(checkpoint).tensors) {
    hash.update(bytes_of(name));
    hash.update(bytes_of(tensor));
  }
  return hash.hex();
}

/// Everything that a run leaves except the times.
void expect_same_model(const std::filesystem::path& a, const std::filesystem::path& b) {
  for (const char* name : {"checkpoint-last", "checkpoint-best"}) EXPECT_EQ(weights(a / name), weights(b / name)) << b;
  const TrainResult first = read_run(a).result;
  const TrainResult second = read_run(b).result;
  EXPECT_EQ(first.valid, second.valid);
  EXPECT_EQ(first.test, second.test);
  EXPECT_EQ(first.test_last, second.test_last);
}

TEST(Lra, WeightsDependOnTheSeedNotOnThreadsOrTheRun) {
  const TemporaryFolder folder;
  for (const std::string attention : {"performer", "softmax"}) {
    const auto after = [&](const std::string& out, const std::vector<std::string>& more) {
      std::vector<std::string> arguments = {"--attention=" + attention, "--out=" + out + attention, "--quiet"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Ended ended = run_lra(folder, arguments);
      EXPECT_EQ(ended.code, 0) << ended.err;
      return weights(folder / (out + attention + "/checkpoint-last"));
    };
    const std::string one = after("one", {});
    EXPECT_EQ(one, after("again", {}));
    EXPECT_EQ(one, after("two", {"--threads=2"}));
    EXPECT_EQ(one, after("three", {"--threads=3"}));
    EXPECT_NE(one, after("other", {"--seed=2"}));
  }
}

TEST(Lra, OneCycleMovesBeta1WhereAsked) {
  const TemporaryFolder folder;
  const auto after = [&](const std::string& out, const std::string& option) {
    const Ended ended =
        run_lra(folder, {"--optim.schedule=one-cycle", "--optim.warmup=10", option, "--out=" + out, "--quiet"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return weights(folder / (out + "/checkpoint-last"));
  };
  EXPECT_NE(after("cycled", "--optim.cycle-beta1"), after("fixed", "--optim.cycle-beta1=false"));
}

TEST(Lra, ComparesAttentionsInOneReport) {
  const TemporaryFolder folder;
  const Ended ended = run_lra(folder, {"--attention=performer,softmax", "--out=both"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const char* row : {"performer ", "softmax ", "majority class ", "best guess from the first operator "}) {
    EXPECT_NE(ended.out.find(std::string("\n") + row), std::string::npos) << ended.out;
  }
  EXPECT_NE(ended.out.find("\nboth/report.html\n"), std::string::npos) << ended.out;
  const std::string report = contents(folder / "both/report.html");
  for (const char* part : {"performer, valid", "softmax, train", "majority class"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part;
  }
  // Each run is the same as when it runs alone.
  ASSERT_EQ(run_lra(folder, {"--attention=softmax", "--out=alone", "--quiet"}).code, 0);
  expect_same_model(folder / "alone", folder / "both/softmax");

  expect_mistake(run_lra(folder, {"--attention=performer,softmax", "--out=both"}), "both holds runs already");
  const Ended again = run_lra(folder, {"--attention=performer,softmax,none", "--out=both", "--resume"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("both/softmax is finished already"), std::string::npos) << again.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "both/none/results.json"));
  // A mistake in the last one is reported before the first begins.
  expect_mistake(run_lra(folder, {"--attention=performer,sofmax", "--out=new"}), "did you mean 'softmax'?");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  // And so are missing data.
  const Ended missing = run_lra(folder, {"--task=listops,retrieval", "--out=new"});
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.err.find("new_aan_pairs.train.tsv: is missing"), std::string::npos) << missing.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  expect_mistake(run_lra(folder, {"--attention=performer,", "--out=new"}), "a comma without a name");
  expect_mistake(run_lra(folder, {"--attention=none,none", "--out=new"}), "'none' stands twice");
}

TEST(Lra, AnInterruptedComparisonSaysHowToGoOn) {
  const TemporaryFolder folder;
  Process process(lra({"--attention=performer,softmax", "--steps=100000"}), folder.path());
  ASSERT_TRUE(process.wait_for(folder / "runs/lra/listops-performer+softmax-seed1/performer/metrics.jsonl", "valid"));
  process.kill(SIGINT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_NE(ended.err.find("--steps=100000 --out=runs/lra/listops-performer+softmax-seed1 --resume\n"),
            std::string::npos)
      << ended.err;
}

// SKY's code rounds up to a power of two: that many positions and, where a mean divides by them, batches that long.
TEST(Lra, AModelMayBeLongerThanItsSequences) {
  const TemporaryFolder folder;
  const auto shape = [&](const std::string& name, const std::string& pooling) {
    const Ended ended = run_lra(folder, {"--model.length=32", "--model.pooling=" + pooling, "--steps=1",
                                         "--record=" + name + ".safetensors", "--quiet"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    const TensorMap record = read_safetensors(folder / (name + ".safetensors")).tensors;
    EXPECT_EQ(record.at("weights.positions").shape(), (Shape{32, 16}));
    return record.at("step.0.ids").shape();
  };
  EXPECT_EQ(shape("padded", "mean-padded"), (Shape{8, 32}));
  EXPECT_LE(shape("real", "mean")[1], 30);
}

TEST(Lra, MistakesAreToldInOneLine) {
  const TemporaryFolder folder;
  expect_mistake(run_lra(folder, {"--model.layer=2"}), "did you mean --model.layers?");
  expect_mistake(run_lra(folder, {"--attention=perfomer"}), "did you mean 'performer'?");
  expect_mistake(run_lra(folder, {"--preset=quik"}), "did you mean 'quick'?");
  expect_mistake(run_lra(folder, {"--model.dim=30", "--model.heads=4"}), "4");
  expect_mistake(run_lra(folder, {"--model.length=29"}),
                 "--model.length=29: sequences of this task have up to 30 tokens");
  expect_mistake(run_lra(folder, {"--device=cuda:99"}), "cuda");
  expect_mistake(run_lra(folder, {"--optim.cycle-beta1"}), "only the schedule one-cycle moves beta1, not constant");
  // For the second run, before the first one begins.
  expect_mistake(run_lra(folder, {"--attention=performer,skyformer", "--sequence-shards=2"}), "skyformer needs whole");
  expect_mistake(run_lra(folder, {"--attention=performer,informer", "--model.causal"}), "informer has no causal form");
  EXPECT_FALSE(std::filesystem::exists(folder / "data"));
  expect_mistake(run_lra(folder, {"--listops.min-tokens=40"}), "length");
  expect_mistake(run_lra(folder, {"--out=/proc/bochner/run"}), "cannot make the run folder /proc/bochner/run");
  expect_mistake(run_lra(folder, {"--resume", "--out=nothing"}), "there is no run in nothing");
  test::put(folder / "other.ini", "experiment = uci\n");
  expect_mistake(run_lra(folder, {"--config=other.ini"}), "these are settings of the experiment 'uci'");
  // Data for other options, and damaged data.
  ASSERT_EQ(run_lra(folder, {"--out=good", "--steps=0", "--quiet"}).code, 0);
  expect_mistake(run_lra(folder, {"--listops.data-seed=3"}), "holds listops made with seed '0', but 3 is requested");
  const std::filesystem::path table = folder / "data/listops-5-30/basic_test.tsv";
  std::string text = contents(table);
  text[text.size() / 2] = '!';
  test::put(table, text);
  expect_mistake(run_lra(folder, {}), "basic_test.tsv: its SHA-256 is not that of");
}

TEST(Lra, ARunFolderThatIsReadOnlyIsTold) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_lra(folder, {"--out=good", "--steps=0", "--quiet"}).code, 0);  // makes the data
  const auto allow = [](const std::filesystem::path& path, unsigned mode) {
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
  };
  std::filesystem::create_directory(folder / "run");
  allow(folder / "run", 0555);
  std::vector<std::string> command = lra({"--out=run", "--steps=0"});
  uid_t user = 0;
  if (geteuid() == 0) {  // root writes into read-only folders, nobody does not
    user = 65534;
    allow(folder.path(), 0755);
    std::filesystem::copy_file(command[0], folder / "lra");
    allow(folder / "lra", 0755);
    command[0] = "./lra";
  }
  expect_mistake(Process(command, folder.path(), {}, 0, user).wait(),
                 "cannot write in the run folder run: Permission denied");
  allow(folder / "run", 0755);
}

TEST(Lra, AFullDiskKeepsTheLastCheckpoint) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_lra(folder, {"--out=whole", "--quiet"}).code, 0);
  // A limit below the size of a checkpoint simulates a full disk.
  const auto limit = static_cast<rlim_t>(std::filesystem::file_size(folder / "whole/checkpoint-last")) - 1000;
  const Ended full = Process(lra({"--out=full", "--quiet"}), folder.path(), {}, limit).wait();
  expect_failure(full, 1, "File too large");
  expect_failure(full, 1, "; go on with: " BOCHNER_LRA " --resume --out full\n");
  const Ended resumed = run_lra(folder, {"--out=full", "--resume", "--quiet"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same_model(folder / "whole", folder / "full");
  const std::string command = std::string(BOCHNER_LRA) + " --version >/dev/full";
  expect_failure(Process({"/bin/sh", "-c", command}, folder.path()).wait(), 1, "cannot write to standard output");
}

TEST(Lra, FilesWithoutAManifestAreTakenOnlyWhereAskedAndCounted) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_lra(folder, {"--out=made", "--steps=0", "--quiet"}).code, 0);
  std::filesystem::create_directories(folder / "old");
  std::filesystem::rename(folder / "data/listops-5-30", folder / "old/listops-5-30");
  std::filesystem::remove(folder / "old/listops-5-30/manifest.json");
  expect_mistake(run_lra(folder, {"--out=a", "--data=old"}), "old/listops-5-30: the files have no manifest");
  std::filesystem::rename(folder / "old/listops-5-30", folder / "old/listops");
  const auto found = [&](std::vector<std::string> more) {
    std::vector<std::string> command = {BOCHNER_LRA,        "--data=old",     "--listops.found",
                                        "--model.layers=1", "--model.dim=16", "--model.hidden=16",
                                        "--steps=1",        "--threads=1",    "--quiet"};
    command.insert(command.end(), more.begin(), more.end());
    return Process(command, folder.path()).wait();
  };
  const Ended taken = found({"--out=found"});
  ASSERT_EQ(taken.code, 0) << taken.err;
  EXPECT_NE(
      contents(folder / "found/results.json").find("that were found hold 200 + 20 + 20 expressions, the published"),
      std::string::npos);
  const std::string config = contents(folder / "found/config.ini");
  for (const char* line :
       {"train-examples = 200\n", "valid-examples = 20\n", "test-examples = 20\n", "found = true\n"}) {
    EXPECT_NE(config.find(line), std::string::npos) << config;
  }
  expect_mistake(found({"--out=b", "--listops.train-examples=300"}),
                 "listops.train-examples: 300 are asked for, but the file that was found holds 200");
  expect_mistake(found({"--out=b", "--listops.data-seed=3"}),
                 "--listops.data-seed: leave it out; it counts only without --listops.found");
  expect_mistake(found({"--out=b", "--data=data"}), "is missing, but --listops.found asks for files that are there");
}

class LraCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    const Ended ended = interrupted({"--out=run"}, "run");
    ASSERT_EQ(ended.code, 130) << ended.err;
    ASSERT_NE(ended.err.find("interrupted at step "), std::string::npos) << ended.err;
    ASSERT_NE(ended.err.find(std::string("go on with: ") + BOCHNER_LRA + " --resume --out run\n"), std::string::npos)
        << ended.err;
  }
  Ended interrupted(std::vector<std::string> arguments, const std::string& out) {
    arguments.emplace_back("--steps=100000");
    Process process(lra(arguments), folder_.path());
    EXPECT_TRUE(process.wait_for(folder_ / (out + "/metrics.jsonl"), "valid"));
    process.kill(SIGINT);
    return process.wait();
  }
  Ended resume() { return Process({BOCHNER_LRA, "--resume", "--out=run"}, folder_.path()).wait(); }
  std::filesystem::path last() const { return folder_ / "run/checkpoint-last"; }

  TemporaryFolder folder_;
};

TEST_F(LraCheckpoint, OfAnotherModelIsRefused) {
  const std::string good = contents(last());
  ASSERT_EQ(interrupted({"--out=wide", "--model.hidden=24"}, "wide").code, 130);
  test::put(last(), contents(folder_ / "wide/checkpoint-last"));
  expect_mistake(resume(), "put the files of one run together again");
  ASSERT_EQ(interrupted({"--out=other", "--attention=linear-elu", "--model.layers=2"}, "other").code, 130);
  test::put(last(), contents(folder_ / "other/checkpoint-last"));
  expect_mistake(resume(), "put the files of one run together again");
  test::put(last(), good);
  expect_mistake(Process({BOCHNER_LRA, "--resume", "--out=run", "--model.hidden=24"}, folder_.path()).wait(),
                 "model.hidden is 24 but was 16");
}

TEST_F(LraCheckpoint, WithAnyByteChangedIsRefusedAndTheTensorNamed) {
  const std::string good = contents(last());
  Generator places(3);
  for (int i = 0; i < 20; ++i) {
    std::string bad = good;
    // From the header to the last byte of the last tensor.
    const auto place =
        static_cast<size_t>(i == 0 ? good.size() - 1 : places.uniform() * static_cast<double>(good.size()));
    bad[place] = static_cast<char>(bad[place] ^ (1 << (i % 8)));
    test::put(last(), bad);
    const Ended ended = resume();
    expect_mistake(ended, "checkpoint-last: offset ");
    uint64_t header = 0;
    std::memcpy(&header, good.data(), sizeof(header));
    if (place < sizeof(header) + header) continue;
    EXPECT_NE(ended.err.find(" of tensor '"), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("do not match their hash"), std::string::npos) << ended.err;
  }
  test::put(last(), good.substr(0, good.size() / 2));
  expect_mistake(resume(), "checkpoint-last: offset ");
  test::put(last(), "");
  expect_mistake(resume(), "checkpoint-last: the file is empty");
}

TEST(Lra, ALossThatIsNotFiniteStopsTheRunAndNamesTheLayer) {
  const TemporaryFolder folder;
  const Ended ended = run_lra(folder, {"--out=run", "--optim.rate=1e30", "--quiet"});
  EXPECT_EQ(ended.code, 1) << ended.err;
  for (const char* part : {"error: the loss of step ", "first layer whose output is not finite: ", "batch ids "}) {
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run/results.json"));
}

}  // namespace
}  // namespace bochner
