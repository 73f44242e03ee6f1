// Pathfinder through the programs: `data make pathfinder` and the arena's tasks that read what it makes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/png.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::run;
using test::TemporaryFolder;

Ended train(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  const std::vector<std::string> small = {
      BOCHNER_LRA,          "--model.layers=1", "--model.dim=16", "--model.hidden=16", "--model.classifier=0",
      "--model.features=8", "--batch=4",        "--steps=3",      "--threads=1"};
  arguments.insert(arguments.begin(), small.begin(), small.end());
  return run(folder, arguments);
}

TEST(Pathfinder, IsMadeCheckedAndLearntFrom) {
  const TemporaryFolder folder;
  const Ended made = run(folder, {BOCHNER_DATA_PROGRAM, "make", "pathfinder", "--size", "32", "--difficulty", "easy",
                                  "--count", "60", "--seed", "2"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("60 images of 32 x 32, contours of 6 dashes, with seed 2 in data/pathfinder32/curv_baseline"),
            std::string::npos)
      << made.out;
  const Ended checked = run(folder, {BOCHNER_DATA_PROGRAM, "check"});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.out.find("pathfinder32/curv_baseline right      2 of 2 files"), std::string::npos) << checked.out;

  const Ended trained = train(folder, {"--task=pathfinder", "--pathfinder.difficulty=easy", "--out=a"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto results = nlohmann::json::parse(contents(folder / "a/results.json"));
  EXPECT_GE(results["baselines"]["majority class"]["accuracy"].get<double>(), 1.0 / 6);  // of 6 test images
  EXPECT_EQ(results["steps"], 3);
  const Ended convolved =
      train(folder, {"--task=pathfinder", "--pathfinder.difficulty=easy", "--model.convolution=5",
                     "--model.pixels=intensity", "--model.pooling=max", "--precision=bf16", "--out=c"});
  ASSERT_EQ(convolved.code, 0) << convolved.err;
  const auto names = nlohmann::json::parse(contents(folder / "c/results.json"));
  // 25 taps for each of 16 more numbers, 2 vectors of pixels in place of 256
  EXPECT_EQ(names["parameters"].get<int64_t>() - results["parameters"].get<int64_t>(), 25 * 16 - 254 * 16);
  const Ended missing = train(folder, {"--task=pathfinder", "--out=b"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("./run data make pathfinder --size=32 --difficulty=hard --data=data\n"), std::string::npos)
      << missing.err;
}

TEST(Pathfinder, WhatIsAdvisedMakesTheImagesThatAreMissing) {
  const TemporaryFolder folder;
  const std::vector<std::string> command = {"--task=pathfinder", "--pathfinder.size=20", "--pathfinder.difficulty=3",
                                            "--data=some"};
  const std::string err = train(folder, command).err;
  const std::string begin = "make some with ./run data ";
  const size_t at = err.find(begin);
  ASSERT_NE(at, std::string::npos) << err;
  std::istringstream advice(err.substr(at + begin.size()));
  std::vector<std::string> make = {BOCHNER_DATA_PROGRAM};
  for (std::string word; advice >> word;) make.push_back(word);
  make.emplace_back("--count=20");
  const Ended made = run(folder, make);
  ASSERT_EQ(made.code, 0) << made.err;
  const Ended trained = train(folder, command);
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST(Pathfinder, PathXIsOfTheFullSize) {
  const TemporaryFolder folder;
  const Ended made =
      run(folder, {BOCHNER_DATA_PROGRAM, "make", "pathfinder", "--size=128", "--difficulty=easy", "--count=20"});
  ASSERT_EQ(made.code, 0) << made.err;
  const Ended trained =
      train(folder, {"--task=pathx", "--pathx.difficulty=easy", "--attention=performer", "--batch=1", "--out=a"});
  ASSERT_EQ(trained.code, 0) << trained.err;
}

TEST(Pathfinder, PicturesOfTheDocumentsAreThoseOfTheProgram) {
  const TemporaryFolder folder;
  for (const std::string size : {"32", "128"}) {
    const Ended shown = run(folder, {BOCHNER_DATA_PROGRAM, "show", "pathfinder", "--size=" + size, "--out=a.png"});
    ASSERT_EQ(shown.code, 0) << shown.err;
    const Tensor made = read_png(folder / "a.png");
    const Tensor kept = read_png(BOCHNER_SOURCE_DIR "/docs/pathfinder" + size + ".png");
    ASSERT_EQ(made.shape(), kept.shape());
    EXPECT_TRUE(std::equal(made.data<uint8_t>(), made.data<uint8_t>() + made.size(), kept.data<uint8_t>())) << size;
  }
}

TEST(Pathfinder, MistakesAreToldInOneLine) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      run(folder, {BOCHNER_DATA_PROGRAM, "make", "pathfinder", "--size=33"}).err,
      "error: pathfinder: there are no pictures of 33 pixels a side; there are 16, 20, 24, 28, 32, 64, 128 and 256\n");
  EXPECT_EQ(
      train(folder, {"--task=pathfinder", "--pathfinder.size=17"}).err,
      "error: pathfinder: there are no pictures of 17 pixels a side; there are 16, 20, 24, 28, 32, 64, 128 and 256\n");
  EXPECT_EQ(run(folder, {BOCHNER_DATA_PROGRAM, "make", "listops", "--size=32"}).err.substr(0, 30),
            "error: --size: there is no suc");
  EXPECT_EQ(run(folder, {BOCHNER_DATA_PROGRAM, "make", "pathfindr"}).err,
            "error: data make: 'pathfindr' is none of what can be made; did you mean 'pathfinder'? Valid: listops, "
            "pathfinder, films, fashion-mnist\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "data"));
}

}  // namespace
}  // namespace bochner
