// Programs whose processes have one card each and send from card to card: emulated cards, and an emulated NCCL.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "experiments/common/run/results.h"
#include "tests/experiments/processes/together.h"

namespace bochner {
namespace {

using test::Ended;
using test::has;
using test::kAsRoot;
using test::kLra;
using test::mpirun;
using test::Process;
using test::Words;
using test::operator+;

constexpr bool kCard = BOCHNER_LRA_ON_EMULATED_CARD[0] != '\0';

class OnCards : public test::UnderMpirun {
 protected:
  void SetUp() override {
    UnderMpirun::SetUp();
    if (!kCard) GTEST_SKIP() << "this build has no emulated card";
  }
  /// A short run on four cards, with the emulated NCCL or another file.
  Ended run_on(const Words& start, const Words& more, const std::string& nccl = BOCHNER_EMULATED_NCCL,
               const Process::Variables& others = {}) {
    Words command = kLra + Words{"--steps=6", "--optim.evaluate-every=6", "--shards=4", "--threads=1"} + more;
    command.front() = BOCHNER_LRA_ON_EMULATED_CARD;
    Process::Variables variables = kAsRoot;
    variables["BOCHNER_EMULATED_CARDS"] = "4";
    variables["BOCHNER_NCCL"] = nccl;
    variables["BOCHNER_EMULATED_NCCL_RECORD"] = folder_ / "sent";
    variables.insert(others.begin(), others.end());
    return Process(start + command, folder_.path(), variables).wait();
  }
  static Words processes(int count) { return mpirun(count, {}); }
};

TEST_F(OnCards, TheSameBitsForAnyNumberOfCards) {
  const Ended alone = run_on({}, {"--device=cuda", "--out=alone"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (const int count : {2, 3, 4}) {
    const std::string out = fmt::format("nccl{}", count);
    const Ended ended = run_on(processes(count), {"--device=cuda", "--processes=nccl", "--out=" + out});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(weights_of(out), weights_of("alone")) << count;
    std::ifstream sent(folder_ / "sent");
    const int64_t gradient = 4 * read_run(folder_ / out).result.parameters;
    int processes = 0;
    for (int64_t bytes = 0; sent >> bytes; ++processes) EXPECT_GE(bytes, 6 * gradient / 2) << count;
    EXPECT_EQ(processes, count);
    std::filesystem::remove(folder_ / "sent");
  }
  const Ended by_mpi = run_on(processes(2), {"--device=cuda", "--processes=mpi", "--out=mpi"});
  ASSERT_EQ(by_mpi.code, 0) << by_mpi.err;
  EXPECT_EQ(weights_of("mpi"), weights_of("alone"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "sent"));
}

TEST_F(OnCards, TheLibrarysOwnSumIsNearlyTheSame) {
  const Words by_nccl = {"--device=cuda", "--processes=nccl"};
  for (const char* reduce : {"exact", "fast"}) {
    const Ended ended =
        run_on(processes(2), by_nccl + Words{fmt::format("--reduce={}", reduce), fmt::format("--out={}", reduce)});
    ASSERT_EQ(ended.code, 0) << ended.err;
  }
  const auto loss = [&](const char* out) { return read_run(folder_ / out).result.valid.at(0).second; };
  EXPECT_NEAR(loss("fast"), loss("exact"), 1e-4);
}

TEST_F(OnCards, ShareACardWhereNcclAllowsIt) {
  const Words more = {"--device=cuda", "--shards=8"};
  const auto by_nccl = [&](const char* version) {
    return run_on(processes(5), more + Words{"--processes=nccl", fmt::format("--out={}", version)},
                  BOCHNER_EMULATED_NCCL,
                  {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}, {"BOCHNER_EMULATED_NCCL_VERSION", version}});
  };
  const Ended alone = run_on({}, more + Words{"--out=alone"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Ended shared = by_nccl("23003");
  ASSERT_EQ(shared.code, 0) << shared.err;
  EXPECT_EQ(weights_of("23003"), weights_of("alone"));
  const Ended earlier = by_nccl("22907");
  EXPECT_EQ(earlier.code, 2);
  EXPECT_TRUE(has(earlier, "a machine has more processes than cards")) << earlier.err;
}

TEST_F(OnCards, MistakesAreToldOnceAndNamed) {
  const auto expect = [](const Ended& ended, const std::string& part) {
    EXPECT_EQ(ended.code, 2) << part;
    EXPECT_TRUE(has(ended, part)) << part << "\n" << ended.err;
    EXPECT_EQ(ended.err.find("error: "), ended.err.rfind("error: ")) << ended.err;
  };
  const Words by_nccl = {"--device=cuda", "--processes=nccl"};
  expect(run_on(processes(2), by_nccl, "/nowhere/libnccl.so.2"),
         "NCCL: it cannot be loaded: /nowhere/libnccl.so.2: cannot open shared object file");
  expect(run_on(processes(2), {"--processes=nccl"}), "--processes=nccl: it carries between cards");
  expect(run_on({}, {"--processes=nccl"}), "--processes=nccl: it carries between cards");
  expect(run_on(processes(5), by_nccl + Words{"--shards=8"}),
         "a machine has more processes than cards (this one has 4 cards)");
}

TEST(NcclVersion, SaysWhetherItWasFound) {
  const test::TemporaryFolder folder;
  const auto version = [&](const std::string& file) {
    return Process({BOCHNER_LRA, "--version"}, folder.path(), {{"BOCHNER_NCCL", file}}).wait().out;
  };
  EXPECT_NE(version(BOCHNER_EMULATED_NCCL).find("\nNCCL:     2.21.5\n"), std::string::npos);
  EXPECT_NE(version("/nowhere.so").find("\nNCCL:     no: "), std::string::npos);
}

}  // namespace
}  // namespace bochner
