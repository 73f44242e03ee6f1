// Small runs of the experiments on fields over coordinates, as users start them, and the pictures and points from which
// they learn.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/png.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "experiments/learners/coordinates/field.h"
#include "experiments/learners/coordinates/picture.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::run;
using test::TemporaryFolder;

TEST(SirenProgram, FitsAPictureAndDrawsItsDerivatives) {
  const TemporaryFolder folder;
  Tensor image = Tensor::empty({12, 16}, DType::u8);
  for (int64_t i = 0; i < image.size(); ++i) image.data<uint8_t>()[i] = static_cast<uint8_t>(i % 16 * 12 + i / 16 * 5);
  write_png(folder / "slope.png", image);
  const Ended ended = run(folder, {BOCHNER_SIREN, "--data=slope.png", "--attention=plain,snnk-sin", "--model.width=32",
                                   "--model.hidden=1", "--model.features=32", "--model.omega=5", "--optim.rate=3e-3",
                                   "--steps=300", "--optim.evaluate-every=100", "--threads=1", "--out=out"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const std::string layer : {"plain", "snnk-sin"}) {
    const auto results = nlohmann::json::parse(contents(folder / ("out/" + layer + "/results.json")));
    EXPECT_GT(results["metrics"]["test"]["psnr"], 30) << layer;
    EXPECT_GT(results["metrics"]["test"]["psnr-gradient"], 0) << layer;
    for (const std::string file : {"image.png", "gradient.png", "laplacian.png", "laplacian-true.png"}) {
      EXPECT_EQ(read_png(folder / ("out/" + layer + "/" + file)).shape(), (Shape{12, 16, 1})) << file;
    }
    EXPECT_NE(contents(folder / ("out/" + layer + "/report.html")).find("data:image/png;base64,"), std::string::npos);
  }
  const Ended measured = run(folder, {BOCHNER_SIREN, "--evaluate=out/plain"});
  EXPECT_EQ(std::count(measured.out.begin(), measured.out.end(), '\n'), 2) << measured.out;  // the model and its set
  EXPECT_NE(measured.out.find("\npicture: psnr "), std::string::npos) << measured.out;

  const Ended misspelt = run(folder, {BOCHNER_SIREN, "--data=still-lief"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_NE(misspelt.err.find("say still-life or dead-leaves"), std::string::npos) << misspelt.err;
  const Ended leaves =
      run(folder, {BOCHNER_SIREN, "--data=dead-leaves", "--size=12", "--model.width=16", "--model.hidden=2",
                   "--model.features=8", "--model.replace=1", "--model.start=spread", "--optim.snnk-rate=10",
                   "--steps=3", "--threads=1", "--out=leaves"});
  ASSERT_EQ(leaves.code, 0) << leaves.err;
  EXPECT_EQ(nlohmann::json::parse(contents(folder / "leaves/results.json"))["parameters"],
            3 * 16 + (16 * 16 + 16) + 16 * 8 + 17);
  const Ended beyond = run(folder, {BOCHNER_SIREN, "--size=12", "--model.hidden=2", "--model.replace=2"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_NE(beyond.err.find("hidden layer 2 of 2"), std::string::npos) << beyond.err;
  const Ended none = run(folder, {BOCHNER_SIREN, "--data=nowhere.png"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("nowhere.png"), std::string::npos) << none.err;
}

TEST(Picture, DeadLeavesVaryAtEveryScale) {
  const Tensor fine = siren::dead_leaves(96).values;
  EXPECT_GE(amin(fine).item(), -1);
  EXPECT_LE(amax(fine).item(), 1);
  // Means over 8 x 8 pixels keep most of the deviation; for noise they would have an eighth.
  const Tensor coarse = mean(fine.reshape({12, 8, 12, 8}), {1, 3});
  const auto deviation = [](const Tensor& x) { return std::sqrt(mean(square(x - mean(x).item())).item()); };
  EXPECT_GT(deviation(fine), 0.2);
  EXPECT_GT(deviation(coarse), 0.5 * deviation(fine));
  EXPECT_LT(deviation(coarse), 0.98 * deviation(fine));
  // The same leaves at every size
  const Tensor half = mean(fine.reshape({48, 2, 48, 2}), {1, 3}) - siren::dead_leaves(48).values;
  EXPECT_LT(deviation(half), 0.1 * deviation(fine));
}

TEST(Picture, PsnrIsThatOfItsDefinition) {
  EXPECT_NEAR(siren::psnr({0, 1, 0.5}, {0.1, 0.9, 0.4}, 2), 10 * std::log10(4 / 0.01), 1e-9);
}

TEST(Picture, DerivativesAreThoseOfItsSlope) {
  const TemporaryFolder folder;
  Tensor image = Tensor::empty({5, 9}, DType::u8);
  for (int64_t y = 0; y < 5; ++y) {
    for (int64_t x = 0; x < 9; ++x) image.data<uint8_t>()[y * 9 + x] = static_cast<uint8_t>(5 * y + 10 * x + x * x);
  }
  write_png(folder / "slope.png", image);
  const siren::Picture picture = siren::read_picture((folder / "slope.png").string());
  const float* const g = picture.gradient.data<float>() + 2 * (2 * 9 + 3);  // y = 2, x = 3
  EXPECT_NEAR(g[0], 5 / 127.5 / (2.0 / 4), 1e-5);
  EXPECT_NEAR(g[1], (10 + 2 * 3) / 127.5 / (2.0 / 8), 1e-5);
  EXPECT_NEAR(picture.laplacian.data<float>()[2 * 9 + 3], 2 / 127.5 / (0.25 * 0.25), 1e-4);
}

TEST(PointFeed, GoesOnWhereItWas) {
  Tensor x = Tensor::arange(100).cast(DType::f32).view({100, 1});
  coordinates::PointFeed feed(coordinates::points({{"points", x}}), 10, Generator(3));
  const std::vector<int64_t> first = feed.next().numbers;
  const std::vector<int64_t> second = feed.next().numbers;
  EXPECT_NE(first, second);
  feed.go_to(1);
  EXPECT_EQ(feed.next().numbers, second);
}

TEST(SirenProgram, AMistakeOfTheSecondNetworkIsToldBeforeTheFirstIsTrained) {
  const TemporaryFolder folder;
  const auto mistake = [&](const std::string& option, const std::string& says) {
    for (const char* program : {BOCHNER_SIREN, BOCHNER_QPNN}) {
      const Ended ended = run(folder, {program, "--preset=quick", "--attention=plain,snnk-sin", option, "--out=run"});
      EXPECT_EQ(ended.code, 2) << program << option;
      EXPECT_NE(ended.err.find(says), std::string::npos) << program << ended.err;
      EXPECT_FALSE(std::filesystem::exists(folder / "run")) << program << option;
    }
  };
  mistake("--model.features=7", "--model.features=7: features of snnk-sin come in pairs; take an even number");
  mistake("--model.replace=9", "--model.replace: there is no hidden layer 9 of ");
}

TEST(QpnnProgram, FindsThePotentialsOfBothSystems) {
  const TemporaryFolder folder;
  for (const std::string task : {"harmonic", "two-body"}) {
    const Ended ended =
        run(folder, {BOCHNER_QPNN, "--task=" + task, "--attention=plain,snnk-cos", "--model.width=32",
                     "--model.features=32", "--points=2000", "--steps=600", "--batch=256", "--optim.rate=3e-3",
                     "--optim.evaluate-every=200", "--threads=1", "--out=" + task});
    ASSERT_EQ(ended.code, 0) << ended.err;
    for (const std::string layer : {"plain", "snnk-cos"}) {
      const std::string out = task + "/" + layer;
      const auto results = nlohmann::json::parse(contents(folder / (out + "/results.json")));
      EXPECT_LT(results["metrics"]["test"]["error"], 0.2) << out;
      EXPECT_EQ(read_png(folder / (out + "/potential.png")).size(2), 3);
      EXPECT_NE(contents(folder / (out + "/report.html")).find("true potential"), std::string::npos);
    }
  }
  const Ended many = run(folder, {BOCHNER_QPNN, "--states=5"});
  EXPECT_EQ(many.code, 2);
  EXPECT_NE(many.err.find("--states=5"), std::string::npos) << many.err;
}

}  // namespace
}  // namespace bochner
