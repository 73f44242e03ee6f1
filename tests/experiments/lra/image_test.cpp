// The arena's task on CIFAR-10, through the program, on a few images that the test writes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::TemporaryFolder;

TEST(ImageTask, ThreeStepsAndTheSizeOfTheTestSetBesideTheNumbers) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data/cifar10");
  const auto write = [&](const std::string& name, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(i % 10) + std::string(3072, static_cast<char>(25 * i));
    write_file_atomically(folder / ("data/cifar10/" + name), bytes);
  };
  for (int i = 1; i <= 5; ++i) write(fmt::format("data_batch_{}.bin", i), 8);
  write("test_batch.first5.bin", 5);
  const Ended trained = Process({BOCHNER_LRA, "--task=image", "--image.partial=true", "--attention=performer",
                                 "--model.layers=1", "--model.dim=16", "--model.hidden=16", "--model.classifier=0",
                                 "--model.features=8", "--batch=4", "--steps=3", "--threads=1", "--out=a"},
                                folder.path())
                            .wait();
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string remark = "test_batch.bin: only 5 of the 10000 published test images";
  EXPECT_NE(trained.err.find("warning: image: " + remark), std::string::npos) << trained.err;
  EXPECT_NE(trained.out.find(remark), std::string::npos) << trained.out;
  EXPECT_NE(contents(folder / "a/report.html").find(remark), std::string::npos);
  const auto results = nlohmann::json::parse(contents(folder / "a/results.json"));
  EXPECT_EQ(results["remarks"].back(), remark);
  EXPECT_EQ(results["data"].size(), 6U);
  // The first image of each file is black.
  const Ended measured = Process({BOCHNER_LRA, "--evaluate=a"}, folder.path()).wait();
  const Ended masked = Process({BOCHNER_LRA, "--evaluate=a", "--image.mask-black=true"}, folder.path()).wait();
  EXPECT_EQ(masked.code, 0) << masked.err;
  EXPECT_NE(masked.out, measured.out);
}

}  // namespace
}  // namespace bochner
