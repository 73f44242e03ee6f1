// Common to tests of several processes: `lra` on a small problem, under mpirun.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/io/elements.h"
#include "engine/io/sha256.h"
#include "experiments/common/run/state.h"
#include "tests/experiments/process.h"

namespace bochner::test {

using Words = std::vector<std::string>;

inline constexpr bool kMpi = BOCHNER_MPIRUN[0] != '\0';
inline constexpr const char* kNoMpi = "MPI was not found when this was built";

inline const Process::Variables kAsRoot = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A small model in which everything is random: dropout, and features that are redrawn.
inline const Words kLra = {BOCHNER_LRA,
                           "--listops.min-tokens=5",
                           "--listops.max-tokens=30",
                           "--listops.max-length=30",
                           "--listops.train-examples=400",
                           "--listops.valid-examples=90",
                           "--listops.test-examples=70",
                           "--attention=gmm-prf",
                           "--model.layers=1",
                           "--model.dim=16",
                           "--model.hidden=16",
                           "--model.classifier=0",
                           "--model.features=8",
                           "--model.redraw=3",
                           "--model.dropout=0.1",
                           "--optim.schedule=constant",
                           "--optim.evaluate-every=8",
                           "--optim.rate=1e-3",
                           "--batch=16",
                           "--steps=24",
                           "--data=data"};

inline Words mpirun(int processes, const Words& command) {
  return Words{BOCHNER_MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", std::to_string(processes)} + command;
}

/// All tensors of the checkpoint: the model, the optimizer's moments, random features.
inline std::string weights(const std::filesystem::path& checkpoint) {
  Sha256 hash;
  for (const auto& [name, tensor] : State::load(checkpoint).tensors) {
    hash.update(bytes_of(name));
    hash.update(bytes_of(tensor));
  }
  return hash.hex();
}

inline bool has(const Ended& ended, const std::string& text) { return ended.err.find(text) != std::string::npos; }

/// Tests of programs under mpirun, in a folder that is removed afterwards.
class UnderMpirun : public testing::Test {
 protected:
  void SetUp() override {
    if (!kMpi) GTEST_SKIP() << kNoMpi;
  }
  Ended run(const Words& command) { return Process(command, folder_.path(), kAsRoot).wait(); }
  std::string weights_of(const std::string& out) { return weights(folder_ / (out + "/checkpoint-last")); }

  TemporaryFolder folder_;
};

/// The process with this rank that mpirun started.
inline pid_t process_of(pid_t mpirun, int rank) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = contents(entry.path() / "stat");
    const std::string after = stat.substr(std::min(stat.size(), stat.rfind(')') + 4));
    if (std::atoi(after.c_str()) != mpirun) continue;
    const std::string variables = contents(entry.path() / "environ");
    if (variables.find(fmt::format("OMPI_COMM_WORLD_RANK={}", rank) + '\0') != std::string::npos) return std::stoi(pid);
  }
  return 0;
}

/// Runs of that problem.
class Together : public UnderMpirun {
 protected:
  /// Starts a run that takes long, and waits until it has a checkpoint.
  std::unique_ptr<Process> begun(int processes, const std::string& out, const Words& more = {},
                                 const Process::Variables& variables = kAsRoot) {
    auto process = std::make_unique<Process>(
        mpirun(processes, kLra + Words{"--steps=1000000", "--threads=1", "--out=" + out} + more), folder_.path(),
        variables);
    EXPECT_TRUE(process->wait_for(process->err(), "step 16: valid"));
    while (!std::filesystem::exists(folder_ / (out + "/checkpoint-last"))) usleep(1000);
    return process;
  }
};

}  // namespace bochner::test
