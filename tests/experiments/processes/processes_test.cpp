// Programs that run as several processes: the same bits for any number of them, and what they refuse.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engine/io/sha256.h"
#include "engine/io/xxh3.h"
#include "engine/sanitizer.h"
#include "experiments/common/run/results.h"
#include "tests/experiments/processes/together.h"
#include "tests/experiments/tiny_bert.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::has;
using test::kAsRoot;
using test::kLra;
using test::kMpi;
using test::mpirun;
using test::Process;
using test::process_of;
using test::TemporaryFolder;
using test::Together;
using test::Words;
using test::operator+;

TEST_F(Together, TheSameBitsForAnyNumberOfProcessesAndThreads) {
  const Ended alone = run(kLra + Words{"--shards=8", "--out=alone", "--threads=1"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string expected = weights_of("alone");
  const TrainResult reference = read_run(folder_ / "alone").result;
  for (const int processes : {1, 2, 3, 4, 8}) {
    for (const int threads : {1, 2}) {
      const std::string out = fmt::format("of{}x{}", processes, threads);
      const Ended ended =
          run(mpirun(processes, kLra + Words{"--shards=8", "--out=" + out, fmt::format("--threads={}", threads)}));
      ASSERT_EQ(ended.code, 0) << ended.err;
      EXPECT_EQ(weights_of(out), expected) << out;
      const TrainResult result = read_run(folder_ / out).result;
      EXPECT_EQ(result.valid, reference.valid) << out;
      EXPECT_EQ(result.test, reference.test) << out;
      EXPECT_EQ(result.processes, processes);
      const int64_t gradient = 4 * result.parameters;
      if (processes == 1) {
        EXPECT_EQ(result.bytes_sent, 0);
      } else {
        EXPECT_GT(result.bytes_sent, gradient / 2);
      }
      // Besides these: loss and answers, whether parameters have gradients, and what time it is.
      EXPECT_LE(result.bytes_sent, 2 * gradient + 4096) << out;
    }
  }
}

TEST_F(Together, TheSameBitsInBf16) {
  const Words command = kLra + Words{"--shards=8", "--precision=bf16", "--steps=8"};
  ASSERT_EQ(run(kLra + Words{"--shards=8", "--steps=8", "--out=f32"}).code, 0);
  ASSERT_EQ(run(command + Words{"--out=alone", "--threads=1"}).code, 0);
  EXPECT_NE(weights_of("alone"), weights_of("f32"));
  for (const auto& [processes, threads] : {std::pair{1, 2}, {2, 1}, {3, 2}, {8, 1}}) {
    const std::string out = fmt::format("of{}x{}", processes, threads);
    const Ended ended = run(mpirun(processes, command + Words{"--out=" + out, fmt::format("--threads={}", threads)}));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(weights_of(out), weights_of("alone")) << out;
    EXPECT_EQ(read_run(folder_ / out).result.valid, read_run(folder_ / "alone").result.valid) << out;
  }
}

TEST_F(Together, TheLibrarysOwnSumIsNearlyTheSame) {
  ASSERT_EQ(run(mpirun(3, kLra + Words{"--out=exact"})).code, 0);
  const Ended ended = run(mpirun(3, kLra + Words{"--reduce=fast", "--out=fast"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const TrainResult exact = read_run(folder_ / "exact").result, fast = read_run(folder_ / "fast").result;
  EXPECT_NEAR(fast.valid.at(0).second, exact.valid.at(0).second, 1e-4);
  EXPECT_LT(fast.bytes_sent, exact.bytes_sent);  // a ring of 3 sends 4/3 of a gradient, the tree up to 2
}

/// `glue` with a frozen trunk, which runs over a whole set before its first batch.
class OverAFrozenTrunk : public Together {
 protected:
  void SetUp() override {
    Together::SetUp();
    test::save_tiny_bert(folder_ / "model");
    std::filesystem::create_directories(folder_ / "data/glue/RTE");
  }
  void put_rows(const std::string& file, int rows) {
    std::string text = "index\tsentence1\tsentence2\tlabel\n";
    for (int i = 0; i < rows; ++i) {
      text += fmt::format("{}\ta b c a b c a b c a b c\t{} b c a b c a b c\t{}\n", i, i,
                          i % 3 == 0 ? "entailment" : "not_entailment");
    }
    test::put(folder_ / ("data/glue/RTE/" + file), text);
  }
  static Words glue(const Words& more) {
    return Words{BOCHNER_GLUE,
                 "--task=rte",
                 "--partial",
                 "--pretrained=model",
                 "--max-length=32",
                 "--batch=8",
                 "--optim.evaluate-every=1",
                 "--model.dropout=0",
                 "--threads=1"} +
           more;
  }
  /// What two processes do when one of them gets a signal after this was printed.
  Ended stopped(const Words& more, const std::string& said) {
    Process process(mpirun(2, glue(more)), folder_.path(), kAsRoot);
    EXPECT_TRUE(process.wait_for(process.err(), "the frozen trunk runs once"));
    const pid_t one = process_of(process.pid(), 1);
    EXPECT_TRUE(process.wait_for(process.err(), said));
    EXPECT_NE(one, 0);
    if (one != 0) kill(one, SIGTERM);
    return process.wait();
  }
};

TEST_F(OverAFrozenTrunk, ASignalInAnEvaluationSavesTheRun) {
  put_rows("train.tsv", 24);
  put_rows("dev.tsv", 8000);
  const Ended ended =
      stopped({"--model.method=pooler", "--steps=100", "--out=run"}, "dev: the frozen trunk runs once over 8000");
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_TRUE(has(ended, "interrupted at step 1 of 100")) << ended.err;
  EXPECT_FALSE(has(ended, "error: ")) << ended.err;
  const State last = State::load(folder_ / "run/checkpoint-last");
  EXPECT_EQ(last.integer("run.step"), 1);
  EXPECT_EQ(last.integer("run.unevaluated"), 1);
  Process resumed(mpirun(2, {BOCHNER_GLUE, "--resume", "--out=run"}), folder_.path(), kAsRoot);
  EXPECT_TRUE(resumed.wait_for(resumed.err(), "step 1: valid"));
  resumed.kill(SIGUSR1);
  EXPECT_EQ(resumed.wait().code, 75);
}

// With --init it runs in the first step, since its weights differ from those with which the model was made.
TEST_F(OverAFrozenTrunk, ASignalInTheFirstStepEndsAllOfThem) {
  put_rows("train.tsv", 16);
  put_rows("dev.tsv", 8);
  ASSERT_EQ(run(glue({"--model.method=full", "--steps=1", "--out=other"})).code, 0);
  put_rows("train.tsv", 8000);
  const Ended ended =
      stopped({"--model.method=pooler", "--steps=2000", "--init=other", "--out=run"}, " into run\ntrain: the frozen");
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_TRUE(has(ended, "interrupted while the frozen trunk ran")) << ended.err;
  EXPECT_FALSE(has(ended, "error: ")) << ended.err;
}

TEST_F(Together, MistakesAreToldOnceAndNamed) {
  const auto expect = [&](const Words& command, const Words& parts) {
    const Ended ended = run(command);
    EXPECT_EQ(ended.code, 2) << parts.front();
    for (const std::string& part : parts) EXPECT_TRUE(has(ended, part)) << part << "\n" << ended.err;
    EXPECT_EQ(ended.err.find("error: "), ended.err.rfind("error: ")) << ended.err;
  };
  ASSERT_EQ(run(kLra + Words{"--steps=1", "--out=first"}).code, 0);  // now the data exist
  const Words wrong = kLra + Words{"--no-such=1"};
  expect(mpirun(1, wrong) + Words{":", "-n", "1"} + kLra, {"error: --no-such: there is no such option"});
  expect(mpirun(1, kLra) + Words{":", "-n", "1"} + wrong,
         {"error: process 1 (pid ", "--no-such: there is no such option"});
  expect(mpirun(2, kLra + Words{"--batch=12"}), {"--shards=8: they do not divide a batch of 12 examples"});
  expect(mpirun(3, kLra + Words{"--shards=2"}), {"shards: 2 are too few for 3 processes"});
  expect(mpirun(2, {BOCHNER_TOY}), {"2 processes: this program trains in one"});
  expect(mpirun(2, {BOCHNER_LRA, "--predict=first", "--data=none"}), {"--predict: takes one process, but there are 2"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));  // no data were made for it
  expect(mpirun(2, kLra + Words{"--task=listops,retrieval"}), {"new_aan_pairs.train.tsv: is missing"});
  expect(mpirun(1, kLra) + Words{":", "-n", "1"} + kLra + Words{"--optim.rate=2e-3"},
         {"the configuration differs between processes: process 0 (pid ", "has the hash ", "optim.rate = 0.001)",
          "but process 1 (pid ", "optim.rate = 0.002)"});
  expect(mpirun(1, kLra) + Words{":", "-n", "1"} + kLra + Words{"--optim.evaluate-every=7"},
         {"the configuration differs between processes: process 0 (pid ", "evaluate-every = 7)"});
  expect(mpirun(1, kLra) + Words{":", "-n", "1"} + kLra + Words{"--bench"},
         {"what the command asks for differs between processes: process 0 (pid ", "--bench)"});
  const auto ordered = [](const char* order) { return Words{"/usr/bin/env", std::string("BOCHNER_BF16=") + order}; };
  expect(mpirun(1, ordered("pairs") + kLra) + Words{":", "-n", "1"} + ordered("tiles") + kLra,
         {"the build differs between processes: process 0 (pid ", "(bf16 pairs), but process 1 (pid ", "(bf16 tiles)"});
}

TEST_F(Together, OtherBytesOfTheProgramAreRefused) {
  const std::filesystem::path other = folder_ / "other";
  std::filesystem::copy_file(BOCHNER_LRA, other);
  const Words command = kLra + Words{"--steps=1"};
  const auto with_other = [&](const std::string& out) {
    Words second = command + Words{"--out=" + out};
    second.front() = other;
    return run(mpirun(1, command + Words{"--out=" + out}) + Words{":", "-n", "1"} + second);
  };
  const Ended copied = with_other("copied");
  EXPECT_EQ(copied.code, 0) << copied.err;
  std::ofstream(other, std::ios::app) << '\0';
  const Ended ended = with_other("changed");
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(has(ended, "the build differs between processes: process 0 (pid ")) << ended.err;
  for (const std::filesystem::path& file : {std::filesystem::path(BOCHNER_LRA), other}) {
    EXPECT_TRUE(
        has(ended, fmt::format("({} with XXH3-128 {})", std::filesystem::canonical(file).string(), xxh3_of_file(file))))
        << ended.err;
  }
}

/// Two processes that read `table.csv` from separate folders; that of b has another number.
class InTwoFolders : public Together {
 protected:
  void SetUp() override {
    Together::SetUp();
    for (const char* name : {"a", "b", "c"}) {
      std::filesystem::create_directories(folder_ / name);
      std::ofstream table(folder_ / (std::string(name) + "/table.csv"));
      for (int i = 0; i < 200; ++i)
        table << i % 7 << "," << (i * 5) % 11 << "," << (i + (name[0] == 'b' && i == 150)) % 2 << "\n";
    }
  }
  Ended run_in(const char* first, const char* second, const Words& more = {}) {
    const Words uci = Words{BOCHNER_UCI, "--data=table.csv", "--label=-1", "--steps=4", "--batch=16"} + more;
    return run(Words{BOCHNER_MPIRUN, "--oversubscribe", "-wdir", folder_ / first, "-n", "1"} + uci +
               Words{":", "-wdir", folder_ / second, "-n", "1"} + uci);
  }
};

TEST_F(InTwoFolders, TheSameDataAreTaken) {
  const Ended ended = run_in("a", "a");
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(InTwoFolders, OtherDataAreRefused) {
  const Ended ended = run_in("a", "b");
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(has(ended, "what is read for csv differs between processes: process 0 (pid ")) << ended.err;
  for (const char* name : {"a", "b"}) {  // each with the file, its size and its own hash
    const std::string hash = sha256_of_file(folder_ / name / "table.csv");
    EXPECT_TRUE(has(ended, fmt::format("(table.csv with {} bytes, SHA-256 {})",
                                       std::filesystem::file_size(folder_ / name / "table.csv"), hash)))
        << ended.err;
  }
}

TEST_F(InTwoFolders, ARunGoesOnWhereTheFirstAloneSeesItsFolder) {
  ASSERT_EQ(run_in("a", "c", {"--out=run", "--optim.rate=2e-3"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "c/run"));
  int steps = 4;
  for (const char* resume : {"--resume", "--resume=auto"}) {
    const std::string reached = fmt::format("continuing run at step {}", steps);
    steps += 4;
    const Ended ended = run_in("a", "c", {resume, "--out=run", fmt::format("--steps={}", steps)});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_TRUE(has(ended, reached)) << ended.err;
  }
  const Ended none = run_in("c", "a", {"--resume", "--out=run"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(has(none, "--resume: there is no run in run: run/config.ini is missing")) << none.err;
  EXPECT_EQ(none.err.find("error: "), none.err.rfind("error: ")) << none.err;
}

TEST_F(InTwoFolders, OneThatSendsNothingEndsAll) {
  test::put(folder_ / "a/settings.ini", "");
  ASSERT_EQ(mkfifo((folder_ / "b/settings.ini").c_str(), 0600), 0);  // reading it means waiting for a writer
  const Ended ended = run_in("a", "b", {"--config=settings.ini", "--process-timeout=2"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(has(ended, "nothing came from process 1 (pid ")) << ended.err;
  EXPECT_TRUE(has(ended, " for 2 seconds; --process-timeout sets how long to wait")) << ended.err;
}

TEST(Processes, ABuildWithoutMpiSaysSo) {
  const TemporaryFolder folder;
  const Ended version = Process({BOCHNER_LRA, "--version"}, folder.path()).wait();
  EXPECT_NE(version.out.find(kMpi ? "\nMPI:      Open MPI" : "\nMPI:      no: "), std::string::npos) << version.out;
  if (kMpi) return;
  const Ended asked = Process({BOCHNER_LRA, "--processes=mpi"}, folder.path()).wait();
  EXPECT_EQ(asked.code, 2) << asked.err;
  EXPECT_TRUE(has(asked, "MPI: this build has none; install libopenmpi-dev")) << asked.err;
}

TEST(Processes, TasksOfSlurmThatDoNotKnowEachOtherAreRefused) {
  const TemporaryFolder folder;
  const Ended ended = Process(kLra, folder.path(), {{"SLURM_STEP_NUM_TASKS", "4"}}).wait();
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_TRUE(has(ended, "srun started 4 tasks, but they do not know each other")) << ended.err;
}

}  // namespace
}  // namespace bochner
