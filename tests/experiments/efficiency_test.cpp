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
                            "--layers=1", "--repeats=1", "--out=run", "--mechanism.features=8"});
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

nlohmann::json table(const TemporaryFolder& folder) {
  return nlohmann::json::parse(test::contents(folder / "run/results.json")).at("tables").at(0);
}

TEST(EfficiencyProgram, EveryPresetRuns) {
  for (const std::string preset : {"small", "regular", "layers", "kl", "kl-retrieval", "kl-listops", "kl-image"}) {
    const TemporaryFolder folder;
    const Ended ended = efficiency(folder, {"--task=model", "--preset=" + preset, "--lengths=16", "--layers=1",
                                            "--dim=16", "--hidden=16", "--repeats=1", "--quiet", "--out=run"});
    ASSERT_EQ(ended.code, 0) << preset << ": " << ended.err;
    const nlohmann::json rows = table(folder).at("rows");
    for (const auto& row : rows) EXPECT_EQ(row.size(), 9U) << preset;
  }
}

TEST(EfficiencyProgram, StandsBesideTheIdealAndBesideSoftmax) {
  const TemporaryFolder folder;
  const Ended ended = efficiency(folder, {"--lengths=32", "--methods=softmax,performer,none", "--features=0,8,0",
                                          "--repeats=1", "--quiet", "--out=run", "--dim=8"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto rows = table(folder).at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].at(0), "performer 8");
  EXPECT_EQ(rows[2].at(6), "1.00");  // none beside itself
  EXPECT_EQ(rows[0].at(7), "1.00");  // softmax beside itself
  EXPECT_EQ(rows[0].at(8), "1.00");
}

TEST(EfficiencyProgram, SaysWhatItDidNotRun) {
  for (const std::string bound : {"limit", "budget"}) {  // any pass takes more than a millionth of a second
    const TemporaryFolder folder;
    const Ended ended = efficiency(folder, {"--lengths=16,32", "--methods=softmax", "--repeats=1", "--out=run",
                                            "--" + bound + "-seconds=1e-6", "--dim=8"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto rows = table(folder).at("rows");
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_NE(rows[0].at(2), bound);
    EXPECT_EQ(rows[1].at(2), bound);
    EXPECT_NE(table(folder).at("title").get<std::string>().find(bound + ": not run"), std::string::npos);
  }
}

TEST(EfficiencyProgram, ModelsOfSeveralDepths) {
  const TemporaryFolder folder;
  const Ended ended = efficiency(folder, {"--task=model", "--layers=1,3", "--lengths=16", "--methods=performer,none",
                                          "--dim=8", "--hidden=8", "--repeats=1", "--quiet", "--out=run"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto rows = table(folder).at("rows");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].at(0), "performer, 1 layers");
  EXPECT_EQ(rows[2].at(0), "performer, 3 layers");
  EXPECT_GT(std::stod(rows[2].at(5).get<std::string>()), std::stod(rows[0].at(5).get<std::string>()));
}

TEST(EfficiencyProgram, RefusesWhatItCanNotMeasure) {
  const TemporaryFolder folder;
  EXPECT_EQ(efficiency(folder, {"--methods=softmaxx"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--heads=3", "--dim=64"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--causal", "--task=model"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--methods=softmax,none", "--features=8"}).code, 2);
}

TEST(Measurements, RefuseOptionsThatChangeNothingOrNeverEnd) {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> refused = {{BOCHNER_EFFICIENCY, "--steps=3"},
                                                         {BOCHNER_EFFICIENCY, "--attention=performer"},
                                                         {BOCHNER_KERNEL_ESTIMATION, "--batch=3"},
                                                         {BOCHNER_KERNEL_ESTIMATION, "--steps=3"},
                                                         {BOCHNER_ATTENTION, "--list", "--batch=3"},
                                                         {BOCHNER_ATTENTION, "--list", "--steps=3"},
                                                         {BOCHNER_BUNDLE, "--steps=3"},
                                                         {BOCHNER_TURING, "--batch=3"}};
  for (const std::vector<std::string>& command : refused) {
    const Ended ended = Process(command, folder.path()).wait();
    EXPECT_EQ(ended.code, 2) << command[0] << " " << command.back();
    EXPECT_NE(ended.err.find("leave it out; "), std::string::npos) << ended.err;
  }
  for (const char* option : {"--repeats=1000000000", "--layers=1000000000"}) {
    const Ended ended = Process({BOCHNER_EFFICIENCY, option}, folder.path()).wait();
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find("at most"), std::string::npos) << ended.err;
  }
}

}  // namespace
}  // namespace bochner
