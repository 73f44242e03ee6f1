#include "datasets/images/cifar10.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/sha256.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/shared_data.h"
#include "tests/tar.h"

namespace bochner::images {
namespace {

using test::message_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;

void ignore(const std::string&) {}

/// Record i: class i % 10, in a single colour.
std::string records(int count, int first = 0) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    bytes += static_cast<char>(i % 10);
    for (const int value : {i, 2 * i, 255 - i}) bytes += std::string(kPixels, static_cast<char>(value));
  }
  return bytes;
}

void write_set(const TemporaryFolder& folder, int train, int test) {
  for (int i = 1; i <= 5; ++i) {
    folder.put(fmt::format("data_batch_{}.bin", i), records(train, (i - 1) * train));
  }
  folder.put("test_batch.first3.bin", records(test));
}

TEST(Cifar, GreyIsTheLuminanceOfThePapers) {
  EXPECT_EQ(grey(0, 0, 0), 0);
  EXPECT_EQ(grey(255, 255, 255), 255);
  EXPECT_EQ(grey(255, 0, 0), 76);
  EXPECT_EQ(grey(0, 255, 0), 149);
  EXPECT_EQ(grey(0, 0, 255), 29);
  for (int red = 0; red < 256; red += 5) {
    for (int green = 0; green < 256; green += 7) {
      for (int blue = 0; blue < 256; blue += 9) {
        const double value = 255.5 * (0.2989 * red / 255 + 0.5870 * green / 255 + 0.1140 * blue / 255);
        if (std::abs(value - std::round(value)) < 1e-9) continue;  // where doubles cannot decide
        ASSERT_EQ(grey(static_cast<uint8_t>(red), static_cast<uint8_t>(green), static_cast<uint8_t>(blue)),
                  static_cast<int>(value));
      }
    }
  }
}

TEST(Cifar, TrainingImagesAreSplitAndFewerTestImagesAreSaid) {
  const TemporaryFolder folder;
  write_set(folder, 4, 3);
  const TaskData data = load_task({.folder = folder.path(), .partial = true}, ignore);
  EXPECT_EQ(data.task.max_length, 1024);
  EXPECT_EQ(data.train->size(), 18);
  EXPECT_EQ(data.valid->size(), 2);
  EXPECT_EQ(data.test->size(), 3);
  EXPECT_EQ(data.valid->label(1), 19 % 10);
  std::vector<int64_t> ids(1024);
  data.train->copy_tokens(7, 0, ids);
  EXPECT_EQ(ids.front(), grey(7, 14, 248));
  EXPECT_EQ(ids.back(), ids.front());
  ASSERT_EQ(data.remarks.size(), 2U);
  EXPECT_EQ(data.remarks[0], "data_batch_*.bin: only 20 of the 50000 published training images");
  EXPECT_EQ(data.remarks[1], "test_batch.bin: only 3 of the 10000 published test images");
}

TEST(Cifar, FilesMayBePacked) {
  const TemporaryFolder folder;
  write_set(folder, 4, 3);
  const TaskData plain = load_task({.folder = folder.path(), .partial = true}, ignore);
  const fs::path below = folder / "packed" / "cifar-10-batches-bin";
  fs::create_directories(below);
  for (int i = 1; i <= 5; ++i) {
    const std::string name = fmt::format("data_batch_{}.bin", i);
    write_file_atomically(below / (name + ".gz"), format_gzip(bytes_of(folder.contents(name))));
  }
  write_file_atomically(below / "test_batch.bin", records(3));
  const DataLog log;
  const TaskData again = load_task({.folder = folder / "packed", .partial = true}, ignore);
  EXPECT_EQ(log.reads().size(), 6U);
  std::vector<int64_t> a(1024);
  std::vector<int64_t> b(1024);
  for (int64_t i = 0; i < plain.train->size(); ++i) {
    plain.train->copy_tokens(i, 0, a);
    again.train->copy_tokens(i, 0, b);
    ASSERT_EQ(a, b);
  }
}

TEST(Cifar, TheArchiveMayBePackedInAnyWay) {
  std::map<std::string, std::string> files;
  for (int i = 1; i <= 5; ++i) files[fmt::format("cifar-10-batches-bin/data_batch_{}.bin", i)] = records(4, i);
  files["cifar-10-batches-bin/test_batch.bin"] = records(3);
  const std::string tar = test::tar_of(files);
  const TemporaryFolder folder;
  const auto sizes = [&] {
    EXPECT_TRUE(has_cifar10_test(folder.path()));
    const ImageSets sets = read_cifar10({.folder = folder.path(), .partial = true});
    return std::pair(sets.train.count(), sets.test.count());
  };
  folder.put("cifar-10-binary.tar", tar);
  EXPECT_EQ(sizes(), std::pair(int64_t{20}, int64_t{3}));
  fs::remove(folder / "cifar-10-binary.tar");
  write_file_atomically(folder / "cifar-10-binary.tar.gz", format_gzip(bytes_of(tar)));
  EXPECT_EQ(sizes(), std::pair(int64_t{20}, int64_t{3}));
}

TEST(Cifar, AreCheckedAsFilesBelowAndInTheArchive) {
  const TemporaryFolder data;
  const fs::path below = data / "cifar10/cifar-10-batches-bin";
  fs::create_directories(below);
  std::vector<KnownFile> known;
  for (int i = 1; i <= 2; ++i) {
    const fs::path file = test::put(below / fmt::format("data_batch_{}.bin", i), records(2, i));
    known.push_back({fmt::format("cifar10/data_batch_{}.bin", i), 2 * kRecordBytes, sha256_of_file(file)});
  }
  const auto states = [&] {
    std::vector<FileState> found;
    for (const CheckedFile& file : check_cifar10(data.path(), known)) found.push_back(file.state);
    return found;
  };
  using States = std::vector<FileState>;
  EXPECT_EQ(states(), (States{FileState::right, FileState::right}));
  EXPECT_FALSE(has_cifar10_test(data / "cifar10"));
  known.push_back({"cifar10/data_batch_3.bin", kRecordBytes, std::string(64, '0')});
  known[1].sha256 = std::string(64, '0');
  const States expected = {FileState::right, FileState::wrong_hash, FileState::missing};
  EXPECT_EQ(states(), expected);
  const std::string folder = (data / "cifar10").string();
  const std::string archive = folder + "/cifar-10-binary.tar";
  ASSERT_EQ(std::system(fmt::format("tar -C {} -cf {} cifar-10-batches-bin", folder, archive).c_str()), 0);
  fs::remove_all(below);
  EXPECT_EQ(states(), expected);
  EXPECT_TRUE(has_cifar10_test(data / "cifar10"));
  test::put(archive, "no archive");
  EXPECT_EQ(states(), (States{FileState::wrong_hash})) << "one fault is told once";
}

TEST(Cifar, RefusesWhatIsDamaged) {
  const auto error = [](const char* name, const std::string& bytes, bool partial = true) {
    const TemporaryFolder folder;
    write_set(folder, 4, 3);
    folder.put(name, bytes);
    return message_of([&] { load_task({.folder = folder.path(), .partial = partial}, ignore); });
  };
  EXPECT_NE(
      error("data_batch_2.bin", records(2) + "x").find("data_batch_2.bin: offset 6146: record 3 has 1 of its 3073"),
      std::string::npos);
  std::string wrong = records(2);
  wrong[kRecordBytes] = 10;
  EXPECT_NE(error("data_batch_2.bin", wrong).find("record 2 has the class 10, outside 0 ... 9"), std::string::npos);
  EXPECT_NE(error("data_batch_3.bin", "").find("holds no image"), std::string::npos);
  EXPECT_NE(error("test_batch.bin", records(1)).find("another file has these images, too"), std::string::npos);
  EXPECT_NE(error("unread.txt", "", false).find("data_batch_1.bin holds 4 of 10000 images"), std::string::npos);
  const TemporaryFolder none;
  EXPECT_NE(message_of([&] {
              load_task({.folder = none / "cifar10"}, ignore);
            }).find("data_batch_1.bin is missing; put cifar-10-binary.tar.gz there"),
            std::string::npos);
  for (int i = 1; i <= 5; ++i) none.put(fmt::format("data_batch_{}.bin", i).c_str(), records(2));
  EXPECT_NE(message_of([&] {
              load_task({.folder = none.path(), .partial = true}, ignore);
            }).find("test_batch.bin is missing"),
            std::string::npos);
}

TEST(Cifar, RealImagesAreAllThere) {
  const fs::path folder = test::shared_data("cifar10");
  if (folder.empty()) GTEST_SKIP() << "no real data here";
  const TaskData data = load_task({.folder = folder}, ignore);
  EXPECT_EQ(data.train->size(), 45'000);
  EXPECT_EQ(data.valid->size(), 5'000);
  double sum = 0;
  std::vector<int64_t> ids(1024);
  for (int64_t i = 0; i < data.train->size(); i += 9) {
    data.train->copy_tokens(i, 0, ids);
    for (const int64_t id : ids) sum += static_cast<double>(id);
  }
  // The channel means .4914 .4822 .4465 give a grey of .4809, and truncation takes half of what 255.5 adds and half a
  // step.
  EXPECT_NEAR(sum / 1024 / 5000, 122.6, 0.8);
}

}  // namespace
}  // namespace bochner::images
