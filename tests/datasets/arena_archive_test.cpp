// Data sets from small archives in the layout of the Long Range Arena's: copied once and completely, from the deeper of
// two copies, and nothing from an archive that is truncated or a different one.
#include "datasets/arena_archive.h"

#include <gtest/gtest.h>

#include <fstream>

#include "datasets/catalogue.h"
#include "datasets/listops/listops.h"
#include "datasets/pairs/aan.h"
#include "datasets/pathfinder/pathfinder.h"
#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/tar.h"

namespace bochner {
namespace {

using test::contents;
using test::message_of;
using test::TemporaryFolder;
using Files = std::vector<std::pair<std::string, std::string>>;
namespace fs = std::filesystem;

constexpr const char* kInner = "lra_release/lra_release/";

class ArenaArchive : public testing::Test {
 protected:
  /// A little of each data set; the images are those of the generator.
  void SetUp() override {
    for (const char* part : {"train", "eval", "test"}) {
      put(fmt::format("tsv_data/new_aan_pairs.{}.tsv", part), fmt::format("1.0\t1\t2\t{}\tb\n0.0\t1\t2\tc\td\n", part));
    }
    for (const char* part : {"train", "val", "test"}) {
      put(fmt::format("listops-1000/basic_{}.tsv", part), "Source\tTarget\r\n( ( [MAX 1 ) ] )\t1\r\n");
    }
    for (const int64_t size : {32, 128}) {
      const fs::path folder = folder_ / fmt::format("drawn{}", size);
      pathfinder::write_files(folder, {.size = size, .dashes = 14, .count = 10});
      for (const char* part : {"imgs/0", "metadata"}) {
        for (const auto& entry : fs::directory_iterator(folder / part)) {
          const std::string name = (fs::path(part) / entry.path().filename()).string();
          put(fmt::format("pathfinder{}/curv_contour_length_14/{}", size, name), contents(entry.path()));
        }
      }
    }
    put("pathfinder32/curv_baseline/imgs/0/sample_172.png", "");
    put("pathfinder32/curv_contour_length_14/imgs/../elsewhere", "passed over");
    put("pathfinder32/curv_contour_length_14/imgs/0/._sample_1.png", "passed over, as other systems add such files");
    fs::create_directory(data());
  }

  void put(const std::string& name, const std::string& text) { files_.emplace_back(kInner + name, text); }
  fs::path data() const { return folder_ / "data"; }
  fs::path unpacked(const std::string& name) const { return data() / kInner / name; }
  void pack(const Files& files) const {
    write_file_atomically(data() / "lra_release.gz", format_gzip(bytes_of(test::tar_of(files))));
  }
  auto say() {
    return [this](const std::string& line) { said_ += line + "\n"; };
  }
  TaskData retrieval() { return pairs::load_aan({.place = pairs::find_aan(data()), .partial = true}, say()); }
  TaskData pathfinder(int64_t size) {
    return pathfinder::load_task({.place = pathfinder::find(data(), size, 14), .read = {.size = size, .partial = true}},
                                 say());
  }
  TaskData listops() {
    return listops::load_task({.place = listops::find(data()), .generator = {}, .read = {}, .found = true}, say());
  }
  /// Nothing was written next to the archive.
  void expect_untouched() const {
    EXPECT_EQ(std::distance(fs::directory_iterator(data()), fs::directory_iterator()), 1);
  }

  const TemporaryFolder folder_;
  Files files_;
  std::string said_;
};

TEST_F(ArenaArchive, EachSetIsCopiedAloneByItsFirstUse) {
  pack(files_);
  const TaskData pairs = retrieval();
  EXPECT_EQ(pairs.train->size(), 2);
  EXPECT_NE(said_.find("lra_release/tsv_data: making copies of three files"), std::string::npos) << said_;
  EXPECT_EQ(contents(unpacked("tsv_data/new_aan_pairs.eval.tsv")), "1.0\t1\t2\teval\tb\n0.0\t1\t2\tc\td\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(unpacked("")), fs::directory_iterator()), 1);
  EXPECT_EQ(read_manifest(unpacked("tsv_data")).files[0].rows, 2);

  EXPECT_EQ(listops().train->size(), 1);
  EXPECT_EQ(read_manifest(unpacked("listops-1000")).files[0].rows, 1);
  const TaskData images = pathfinder(32);
  EXPECT_EQ(images.train->size() + images.valid->size() + images.test->size(), 10);
  EXPECT_EQ(images.remarks, std::vector<std::string>{"only 10 of the 200000 published images"});
  EXPECT_EQ(contents(unpacked("pathfinder32/curv_contour_length_14/imgs/0/sample_3.png")),
            folder_.contents("drawn32/imgs/0/sample_3.png"));
  EXPECT_FALSE(fs::exists(unpacked("pathfinder32/curv_baseline")));
  EXPECT_EQ(read_manifest(unpacked("pathfinder32/curv_contour_length_14")).files[0].rows, 10);
  EXPECT_NE(said_.find("10 images are listed, of the 200000 that are published"), std::string::npos) << said_;
  EXPECT_EQ(pathfinder(128).task.max_length, 128 * 128);

  fs::remove(data() / "lra_release.gz");
  said_.clear();
  EXPECT_EQ(retrieval().valid->size(), 2);
  EXPECT_EQ(listops().test->size(), 1);
  EXPECT_EQ(pathfinder(32).train->size(), images.train->size());
  EXPECT_EQ(said_.find("making"), std::string::npos) << said_;
  for (const char* name : {"tsv_data", "listops-1000", "pathfinder32/curv_contour_length_14"}) {
    for (const CheckedFile& file : check_manifest(unpacked(name))) EXPECT_EQ(file.state, FileState::right) << file.path;
  }
}

TEST_F(ArenaArchive, TablesThatSomebodyPackedAreNotCopiedAgain) {
  pack(files_);
  for (const char* folder : {"tsv_data", "listops-1000"}) fs::create_directories(unpacked(folder));
  for (const auto& [name, text] : files_) {
    const fs::path path = fs::path(name).lexically_relative(kInner);
    const std::string below = path.parent_path().string();
    if (below != "tsv_data" && below != "listops-1000") continue;
    write_file_atomically(unpacked(path.string() + ".gz"), format_gzip(bytes_of(text)));
  }
  EXPECT_EQ(retrieval().train->size(), 2);
  EXPECT_EQ(listops().train->size(), 1);
  for (const char* folder : {"tsv_data", "listops-1000"}) {
    EXPECT_EQ(std::distance(fs::directory_iterator(unpacked(folder)), fs::directory_iterator()), 3) << folder;
  }
}

TEST_F(ArenaArchive, ARunReadsTheSameDataUnpackedOrNot) {
  const auto read = [&] {
    const DataLog log;
    retrieval();
    pathfinder(32);
    std::vector<std::string> hashes;
    for (const DataRead& one : log.reads()) hashes.push_back(one.sha256);
    return hashes;
  };
  pack(files_);
  const std::vector<std::string> copied = read();
  EXPECT_EQ(copied.size(), 4U);
  EXPECT_EQ(read(), copied);
  fs::remove_all(data() / "lra_release");
  fs::remove(data() / "lra_release.gz");
  for (const auto& [name, text] : files_) {
    if (text.starts_with("passed over")) continue;
    fs::create_directories((data() / name).parent_path());
    write_file_atomically(data() / name, text);
  }
  EXPECT_EQ(read(), copied);
}

TEST_F(ArenaArchive, OtherPackingsServeAsWell) {
  for (const char* name : {"lra_release.tar", "lra_release.tar.gz"}) {
    const std::string tar = test::tar_of(files_);
    if (std::string_view(name).ends_with(".gz")) {
      write_file_atomically(data() / name, format_gzip(bytes_of(tar)));
    } else {
      write_file_atomically(data() / name, tar);
    }
    EXPECT_EQ(retrieval().train->size(), 2) << name;
    fs::remove_all(data());
    fs::create_directory(data());
  }
}

TEST_F(ArenaArchive, TheDeeperOfTwoCopiesIsTaken) {
  Files outer;
  for (const auto& [name, text] : files_) {
    if (name.find("pathfinder128") != std::string::npos && name.ends_with(".png")) {
      outer.emplace_back(name.substr(name.find('/') + 1), "broken");
    }
  }
  const std::string image = "pathfinder128/curv_contour_length_14/imgs/0/sample_3.png";
  for (const bool first : {true, false}) {
    Files both = first ? outer : files_;
    const Files& rest = first ? files_ : outer;
    both.insert(both.end(), rest.begin(), rest.end());
    pack(both);
    EXPECT_EQ(pathfinder(128).test->size(), 1);
    EXPECT_EQ(contents(unpacked(image)), folder_.contents("drawn128/imgs/0/sample_3.png"));
    fs::remove_all(data() / "lra_release");
  }
}

TEST_F(ArenaArchive, NothingIsLeftOfACutOne) {
  const std::string tar = test::tar_of(files_);
  for (const size_t bytes : {tar.size() / 2, tar.size() - 1024}) {
    write_file_atomically(data() / "lra_release.gz", format_gzip(bytes_of(std::string_view(tar).substr(0, bytes))));
    EXPECT_NE(message_of([&] { retrieval(); }).find("lra_release.gz: "), std::string::npos);
    EXPECT_THROW(pathfinder(32), Error);
    expect_untouched();
  }
  const std::vector<std::byte> packed = format_gzip(bytes_of(tar));
  write_file_atomically(data() / "lra_release.gz", Bytes(packed).first(packed.size() - 4));
  EXPECT_NE(message_of([&] { retrieval(); }).find("cut short"), std::string::npos);
  expect_untouched();
}

TEST_F(ArenaArchive, OneWithoutTheSetIsRefusedByName) {
  Files some;
  for (const auto& file : files_) {
    if (file.first.find("tsv_data") == std::string::npos && !file.first.ends_with("basic_val.tsv")) {
      some.push_back(file);
    }
  }
  pack(some);
  const std::string message = message_of([&] { retrieval(); });
  EXPECT_NE(message.find("lra_release.gz: holds no tsv_data with three files"), std::string::npos) << message;
  EXPECT_NE(message.find("'lra_release/lra_release/listops-1000'"), std::string::npos) << message;
  EXPECT_NE(
      message_of([&] { listops(); }).find("its folder 'lra_release/lra_release/listops-1000' holds no basic_val.tsv"),
      std::string::npos);
  expect_untouched();
  EXPECT_NE(message_of([&] { pathfinder(64); }).find("holds no pathfinder64/curv_contour_length_14"),
            std::string::npos);
  expect_untouched();
}

TEST_F(ArenaArchive, MoreThanTheSetMayHaveIsRefusedAndNothingIsLeft) {
  const auto copy = [&](int64_t most_bytes) {
    return message_of([&] {
      copy_from_arena(pairs::find_aan(data()),
                      {"tsv_data", {"new_aan_pairs.train.tsv", "many"}, "a table and more", most_bytes}, say());
    });
  };
  put("tsv_data/new_aan_pairs.train.tsv", std::string(100'000, 'x'));
  put("tsv_data/many/one", "");
  pack(files_);
  const std::string message = copy(100'000);
  EXPECT_NE(message.find("lra_release.gz: its folder 'lra_release/lra_release/tsv_data' holds more than 0.1 MB, the "
                         "most that there may be of a table and more"),
            std::string::npos)
      << message;
  expect_untouched();
  // Even an empty file takes a block.
  files_.clear();
  put("tsv_data/new_aan_pairs.train.tsv", std::string(5000, 'x'));
  for (int i = 0; i < 10; ++i) put(fmt::format("tsv_data/many/{}", i), "");
  pack(files_);
  EXPECT_NE(copy(5000 + 10 * 4096 - 1).find("holds more than"), std::string::npos);
  expect_untouched();
  EXPECT_EQ(copy(5000 + 10 * 4096), "no error");
  EXPECT_TRUE(fs::exists(unpacked("tsv_data/many/9")));
}

TEST_F(ArenaArchive, AFileInThePlaceOfAFolderIsRefused) {
  files_.insert(files_.begin(), {std::string(kInner) + "pathfinder32/curv_contour_length_14/imgs", "a file"});
  pack(files_);
  EXPECT_NE(message_of([&] { pathfinder(32); }).find("cannot be used: "), std::string::npos);
  expect_untouched();
}

TEST_F(ArenaArchive, WhatIsThereComesBeforeIt) {
  pack(files_);
  EXPECT_EQ(pathfinder::find(data(), 32, 9).folder, unpacked("pathfinder32/curv_contour_length_9"));
  EXPECT_FALSE(pathfinder::find(data(), 16, 3).archive.has_value());  // is not published
  for (const char* own : {"pathfinder32/curv_contour_length_9", "retrieval", "listops"}) {
    fs::create_directories(data() / own);
  }
  EXPECT_EQ(pairs::find_aan(data()).folder, unpacked("tsv_data"));  // an empty folder hides nothing
  for (const char* own : {"pathfinder32/curv_contour_length_9", "retrieval", "listops"}) {
    std::ofstream(data() / own / "a file") << "with something in it";
  }
  EXPECT_EQ(pathfinder::find(data(), 32, 9).folder, data() / "pathfinder32/curv_contour_length_9");
  EXPECT_EQ(pairs::find_aan(data()).folder, data() / "retrieval");
  EXPECT_EQ(listops::find(data()).folder, data() / "listops");
  write_manifest(data() / "listops", {"listops", {}, {}});  // generated
  EXPECT_EQ(listops::find(data()).folder, unpacked("listops-1000"));
}

TEST_F(ArenaArchive, LeftoversHideItNot) {
  pack(files_);
  for (const char* own : {"pathfinder32/curv_contour_length_14", "retrieval", "listops"}) {
    fs::create_directories(data() / own / ".making/imgs");
    test::put(data() / own / ".making/imgs/half", "an image");
    for (const char* left : {".making.lock", ".DS_Store"}) test::put(data() / own / left, "");
  }
  for (const char* set : {"pathfinder32/curv_contour_length_14", "tsv_data", "listops-1000"}) {
    fs::create_directories(unpacked(set) / ".making/imgs");
    test::put(unpacked(set) / ".making/imgs/half", "an image");
    test::put(unpacked(set) / ".making.lock", "");
  }
  EXPECT_EQ(pathfinder(32).train->size(), 8);
  EXPECT_EQ(retrieval().train->size(), 2);
  EXPECT_EQ(listops().train->size(), 1);
  for (const char* set : {"pathfinder32/curv_contour_length_14", "tsv_data", "listops-1000"}) {
    for (const char* left : {".making", ".making.lock"}) EXPECT_FALSE(fs::exists(unpacked(set) / left)) << set;
  }
}

TEST_F(ArenaArchive, ADamagedCopyIsRefusedAndAMissingFileCopiedAgain) {
  pack(files_);
  retrieval();
  const fs::path table = unpacked("tsv_data/new_aan_pairs.test.tsv");
  const std::string right = contents(table);
  test::put(table, "0" + right.substr(1));
  EXPECT_NE(message_of([&] { retrieval(); }).find("its SHA-256 is not that of"), std::string::npos);
  fs::remove(table);
  retrieval();
  EXPECT_EQ(contents(table), right);
  fs::remove(table);
  fs::remove(data() / "lra_release.gz");
  EXPECT_NE(message_of([&] { retrieval(); }).find("there is no lra_release.gz any more to copy them from"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner
