// When a process is lost, fails or gets a signal, all end, say why, and can go on.
#include <gtest/gtest.h>

#include "engine/sanitizer.h"
#include "tests/experiments/processes/together.h"

namespace bochner {
namespace {

using test::Clock;
using test::contents;
using test::Ended;
using test::has;
using test::kAsRoot;
using test::kLra;
using test::mpirun;
using test::Process;
using test::process_of;
using test::seconds_since;
using test::Together;
using test::Words;
using test::operator+;

TEST_F(Together, OneThatIsKilledEndsAllAndSaysHowToGoOn) {
  for (const int rank : {1, 0}) {
    const std::string out = fmt::format("killed{}", rank);
    const std::unique_ptr<Process> process = begun(3, out);
    const pid_t victim = process_of(process->pid(), rank);
    ASSERT_NE(victim, 0);
    const auto begin = Clock::now();
    ASSERT_EQ(kill(victim, SIGKILL), 0);
    const Ended ended = process->wait();
    EXPECT_LT(seconds_since(begin), 30);
    EXPECT_NE(ended.code, 0);
    EXPECT_TRUE(has(ended, fmt::format("process {} (pid {} on ", rank, victim))) << ended.err;
    EXPECT_TRUE(has(ended, " has ended: it was killed, or has crashed")) << ended.err;
    EXPECT_TRUE(has(ended, "go on with: ")) << ended.err;
    const int64_t reached = State::load(folder_ / (out + "/checkpoint-last")).integer("run.step");
    EXPECT_GE(reached, 8);
    Process resumed(mpirun(2, {BOCHNER_LRA, "--data=data", "--resume", "--out=" + out}), folder_.path(), kAsRoot);
    EXPECT_TRUE(resumed.wait_for(resumed.err(), fmt::format("continuing {} at step {}", out, reached)));
    EXPECT_TRUE(resumed.wait_for(resumed.err(), fmt::format("step {}: valid", (reached / 8 + 1) * 8)));
    resumed.kill(SIGUSR1);
    EXPECT_EQ(resumed.wait().code, 75);
  }
}

TEST_F(Together, OneThatIsFrozenEndsAll) {
  struct Frozen {
    int rank;
    std::unique_ptr<Process> process;
    pid_t victim;
  };
  std::vector<Frozen> all;
  for (const auto& [rank, more] : {std::pair{1, Words{}}, {0, {}}, {0, {"--process-timeout=5"}}}) {
    std::unique_ptr<Process> process = begun(2, fmt::format("frozen{}", all.size()), more);
    const pid_t victim = process_of(process->pid(), rank);
    ASSERT_NE(victim, 0);
    all.push_back({rank, std::move(process), victim});
  }
  const auto begin = Clock::now();
  for (const Frozen& one : all) EXPECT_EQ(kill(one.victim, SIGSTOP), 0);
  for (const Frozen& one : all) {
    const Ended ended = one.process->wait();
    kill(one.victim, SIGKILL);
    EXPECT_LT(seconds_since(begin), 30);
    EXPECT_EQ(ended.code, 1);
    // mpirun wakes the frozen one when the other has ended: it reports nothing then.
    EXPECT_EQ(ended.err.find("error: "), ended.err.rfind("error: ")) << ended.err;
    EXPECT_TRUE(has(ended, fmt::format("error: process {} (pid {} on ", one.rank, one.victim))) << ended.err;
    EXPECT_TRUE(has(ended, " gave no sign of life for 15 seconds")) << ended.err;
  }
}

TEST_F(Together, OneThatDoesNotAnswerInTimeEndsAllAndSaysHowToGoOn) {
  const std::unique_ptr<Process> process = begun(2, "silent", {"--process-timeout=3"});
  const pid_t victim = process_of(process->pid(), 1);
  ASSERT_NE(victim, 0);
  ASSERT_EQ(kill(victim, SIGSTOP), 0);
  const Ended ended = process->wait();
  kill(victim, SIGKILL);
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(has(ended, fmt::format("nothing came from process 1 (pid {} on ", victim))) << ended.err;
  EXPECT_TRUE(has(ended, "go on with: " BOCHNER_LRA " --resume --out silent  (by mpirun or srun, ")) << ended.err;
}

TEST_F(Together, OneWithoutMemoryEndsAllAndIsNamed) {
  if (kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer itself needs terabytes";
  const Words large = kLra + Words{"--model.classifier=30000000", "--out=large"};  // its weights take 1.8 GiB
  const Words limited = Words{"/usr/bin/prlimit", "--as=2000000000"} + large;
  const Ended ended = run(mpirun(1, large) + Words{":", "-n", "1"} + limited);
  EXPECT_EQ(ended.code, run(limited).code);
  EXPECT_TRUE(has(ended, "error: process 1 (pid ")) << ended.err;
  EXPECT_TRUE(has(ended, "memory: out of memory on cpu: 1920000000 bytes asked for")) << ended.err;
  EXPECT_EQ(ended.err.find("error: "), ended.err.rfind("error: ")) << ended.err;
}

TEST_F(Together, ASignalToAnyOfThemSavesTheRun) {
  const Words steps = {"--steps=200"};
  ASSERT_EQ(run(kLra + Words{"--shards=8", "--out=alone"} + steps).code, 0);
  for (const int signal : {SIGUSR1, SIGTERM}) {
    const std::string out = fmt::format("signal{}", signal);
    const std::unique_ptr<Process> process = begun(2, out, steps);
    const pid_t one = process_of(process->pid(), 1);
    ASSERT_NE(one, 0);
    ASSERT_EQ(kill(one, signal), 0);
    const Ended ended = process->wait();
    EXPECT_EQ(ended.code, 75) << ended.err;
    EXPECT_TRUE(has(ended, "interrupted")) << ended.err;
    EXPECT_TRUE(has(ended, "--resume")) << ended.err;
    EXPECT_GE(State::load(folder_ / (out + "/checkpoint-last")).integer("run.step"), 16);
    const Ended resumed = run(mpirun(3, {BOCHNER_LRA, "--data=data", "--resume", "--out=" + out}));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(weights_of(out), weights_of("alone")) << "goes on as if there had been no signal";
  }
}

TEST_F(Together, ASignalToMpirunSavesTheRun) {
  Process::Variables patient = kAsRoot;  // so many seconds from SIGTERM to SIGTERM of the processes, and on to SIGKILL
  patient["OMPI_MCA_odls_base_sigkill_timeout"] = "5";
  for (const auto& [signal, code] : {std::pair{SIGUSR1, 75}, {SIGTERM, 1}}) {
    const std::string out = fmt::format("mpirun{}", signal);
    const std::unique_ptr<Process> process = begun(2, out, {}, patient);
    ASSERT_EQ(kill(process->pid(), signal), 0);
    const Ended ended = process->wait();
    EXPECT_EQ(ended.code, code) << ended.err;
    EXPECT_TRUE(has(ended, "interrupted at step ")) << ended.err;
    EXPECT_TRUE(has(ended, "--resume --out " + out)) << ended.err;
    EXPECT_GE(State::load(folder_ / (out + "/checkpoint-last")).integer("run.step"), 16);
  }
}

/// Stops a process, and waits until each of its threads stands still. False if there is none.
bool freeze(pid_t process) {
  if (kill(process, SIGSTOP) != 0) return false;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process))) {
    const auto state = [&] {
      const std::string stat = contents(thread.path() / "stat");
      return stat.at(stat.rfind(')') + 2);
    };
    while (state() != 'T') usleep(1000);
  }
  return true;
}

TEST_F(Together, TheLossOfTheFirstTwoIsReportedToo) {
  const std::unique_ptr<Process> process = begun(4, "both");
  const pid_t first = process_of(process->pid(), 0), second = process_of(process->pid(), 1);
  ASSERT_NE(first, 0);
  ASSERT_NE(second, 0);
  // mpirun would end the others as soon as it saw that. It does not see it where it went with their machine.
  // Both are frozen first: else the first might report the second's end before its own.
  ASSERT_EQ(kill(process->pid(), SIGSTOP), 0);
  for (const pid_t one : {first, second}) ASSERT_TRUE(freeze(one));
  for (const pid_t one : {first, second}) ASSERT_EQ(kill(one, SIGKILL), 0);
  sleep(3);
  ASSERT_EQ(kill(process->pid(), SIGCONT), 0);
  const Ended ended = process->wait();
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(has(ended, fmt::format("process 0 (pid {} on ", first))) << ended.err;
  EXPECT_TRUE(has(ended, "go on with: ")) << ended.err;
}

}  // namespace
}  // namespace bochner
