// The efficiency program: every mechanism at every length, in the table and in the record. No test asserts a time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;

Ended efficiency(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BOCHNER_EFFICIENCY);
  return Process(arguments, folder.path()).wait();
}

TEST(EfficiencyProgram, MeasuresAttentionAndTheModelAroundIt) {
  for (const std::string task : {"attention", "model"}) {
    const TemporaryFolder folder;
    const Ended ended =
        efficiency(folder, {"--task=" + task, "--preset=small", "--lengths=16,64", "--methods=softmax,gmm-prf,none",
                            "--layers=1", "--repeats=1", "--quiet", "--out=run", "--mechanism.features=8"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto figures = nlohmann::json::parse(test::contents(folder / "run/results.json")).at("figures");
    ASSERT_EQ(figures.size(), 4U);
    for (const size_t i : {0U, 1U, 3U}) {  // `none` holds nothing in forward
      ASSERT_EQ(figures[i].at("curves").size(), 3U);
      for (const auto& curve : figures[i].at("curves")) EXPECT_EQ(curve.at("points").size(), 2U) << figures[i];
    }
    // log2 of lengths, log10 of MiB: four times the length takes more memory.
    const auto& memory = figures[3].at("curves").at(0).at("points");
    EXPECT_EQ(memory.at(0).at(0), 4);
    EXPECT_EQ(memory.at(1).at(0), 6);
    EXPECT_GT(memory.at(1).at(1).get<double>(), memory.at(0).at(1).get<double>());
    EXPECT_NE(ended.out.find("gmm-prf"), std::string::npos) << ended.out;
  }
}

TEST(EfficiencyProgram, RefusesWhatItCanNotMeasure) {
  const TemporaryFolder folder;
  EXPECT_EQ(efficiency(folder, {"--methods=softmaxx"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--heads=3", "--dim=64"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--causal", "--task=model"}).code, 2);
}

}  // namespace
}  // namespace bochner
