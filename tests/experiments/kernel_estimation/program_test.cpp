// Small runs of the kernel-estimation experiment, as a person would start them.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::run;
using test::TemporaryFolder;

TEST(KernelEstimationProgram, ErrorsFallWithProjections) {
  const TemporaryFolder folder;
  for (const std::string task : {"sine", "arc-cosine", "depth"}) {
    std::vector<std::string> command = {BOCHNER_KERNEL_ESTIMATION, "--preset=quick", "--task=" + task, "--out=" + task,
                                        "--instantiations=20",     "--threads=1",    "--quiet"};
    if (task == "depth") command.emplace_back("--width=8");
    const Ended ended = run(folder, command);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "");
    const auto results = nlohmann::json::parse(contents(folder / (task + "/results.json")));
    const auto curves = results["figures"][0]["curves"];
    EXPECT_EQ(curves.size(), task == "depth" ? 2U : 1U);
    for (const auto& curve : curves) {  // logarithms over 4, 16 and 64 projections
      const auto points = curve["points"].get<std::vector<std::pair<double, double>>>();
      ASSERT_EQ(points.size(), 3U);
      EXPECT_LT(points[2].second, points[0].second - 0.25) << task;  // in expectation by log10(4)
    }
    EXPECT_EQ(results["tables"][0]["rows"].size(), task == "depth" ? 6U : 3U);
    EXPECT_NE(contents(folder / (task + "/report.html")).find("<svg"), std::string::npos);
  }
}

// Entries U(0, 1) / sqrt(d) make |x|^2 = |w|^2 = 1/3 and w.x = 1/4 for large d. With m projections, the squared
// relative error of sin(w.x + 1/2) then has the mean ((e^(2/3) - cos(2)) / 2 - sin(3/4)^2) / (m sin(3/4)^2), as the
// best A is nearly 0 (universal.h), and that of the ReLU layer has the mean (2 pi J_2 / J_1^2 - 1) / m at the angle of
// cosine 3/4.
TEST(KernelEstimationProgram, ErrorsAreThoseOfTheClosedForms) {
  const TemporaryFolder folder;
  const double sine = std::pow(std::sin(0.75), 2);
  const double angle = std::acos(0.75);
  const double J_1 = std::sin(angle) + (std::numbers::pi - angle) * 0.75;
  const double J_2 = 3 * std::sin(angle) * 0.75 + (std::numbers::pi - angle) * (1 + 2 * 0.75 * 0.75);
  for (const auto& [task, square] :
       {std::pair<std::string, double>{"sine", ((std::exp(2.0 / 3) - std::cos(2.0)) / 2 - sine) / sine},
        {"arc-cosine", 2 * std::numbers::pi * J_2 / (J_1 * J_1) - 1}}) {
    const Ended ended = run(folder, {BOCHNER_KERNEL_ESTIMATION, "--task=" + task, "--out=" + task, "--dim=400",
                                     "--projections=32", "--instantiations=400", "--threads=1", "--quiet"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto row = test::results_of(folder / task)["tables"][0]["rows"][0].get<std::vector<std::string>>();
    const double expected = std::sqrt(square / 32);
    EXPECT_NEAR(std::stod(row[4]), expected, 0.16 * expected) << task;
    EXPECT_NEAR(std::hypot(std::stod(row[2]), std::stod(row[3])), std::stod(row[4]), 0.01 * expected) << task;
    if (task == "sine") {
      EXPECT_NEAR(std::stod(row[5]), expected, 0.1 * expected);
    }
  }
}

TEST(KernelEstimationProgram, BeginsWithTheSettingsOfThePaper) {
  const TemporaryFolder folder;
  const std::string own = run(folder, {BOCHNER_KERNEL_ESTIMATION, "--dump-config"}).out;
  const std::string paper = run(folder, {BOCHNER_KERNEL_ESTIMATION, "--preset=snnk", "--dump-config"}).out;
  EXPECT_EQ(own.substr(own.find("\nattention")), paper.substr(paper.find("\nattention")));
}

TEST(KernelEstimationProgram, TrainsNothingSoThereIsNothingToRepeatOrToGoOnWith) {
  const TemporaryFolder folder;
  const std::vector<std::string> quick = {BOCHNER_KERNEL_ESTIMATION, "--preset=quick", "--projections=2", "--out=out"};
  ASSERT_EQ(run(folder, quick).code, 0);
  for (const std::string option : {"--seeds=2", "--resume", "--bench"}) {
    std::vector<std::string> command = quick;
    command.push_back(option);
    const Ended ended = run(folder, command);
    EXPECT_EQ(ended.code, 2);
    EXPECT_NE(ended.err.find("kernel-estimation trains nothing"), std::string::npos) << ended.err;
  }
}

// With one projection, the weights of the fourth layer exceed f32, and those of the eighth exceed f64.
TEST(KernelEstimationProgram, WritesTheDepthsBeforeTheOneWhereAllEstimatesOverflow) {
  const TemporaryFolder folder;
  const Ended ended = run(folder, {BOCHNER_KERNEL_ESTIMATION, "--task=depth", "--depth=8", "--projections=1",
                                   "--instantiations=50", "--threads=1", "--out=out"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("all estimates overflow, so deeper networks are left out"), std::string::npos) << ended.err;
  const auto rows = test::results_of(folder / "out")["tables"][0]["rows"].get<std::vector<std::vector<std::string>>>();
  ASSERT_GE(rows.size(), 2U);
  ASSERT_LT(rows.size(), 8U);
  EXPECT_EQ(rows.front()[0], "1 layer");
  for (const std::vector<std::string>& row : rows) EXPECT_EQ(row[2].empty(), &row == &rows.back()) << row[0];
}

}  // namespace
}  // namespace bochner
