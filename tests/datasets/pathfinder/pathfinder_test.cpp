#include "datasets/pathfinder/pathfinder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "datasets/catalogue.h"
#include "datasets/loader.h"
#include "engine/io/data_log.h"
#include "engine/io/png.h"
#include "engine/parallel.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner::pathfinder {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::TemporaryFolder;

struct Told {
  std::vector<std::string> lines;
  Say say() {
    return [this](const std::string& line) { lines.push_back(line); };
  }
};

GeneratorOptions small(int64_t count = 40) { return {.size = 32, .dashes = 6, .count = count, .seed = 3}; }

std::string message_of_reading(const fs::path& folder, bool partial = true) {
  Told told;
  return message_of([&] { read(folder, {.size = 32, .partial = partial}, told.say()); });
}

/// Like an archive of the Long Range Arena: without a manifest.
void make_official(const fs::path& folder, int64_t count = 40) {
  write_files(folder, small(count));
  fs::remove(folder / Manifest::kFileName);
}

TEST(PathfinderFiles, AreTheOfficialTree) {
  const TemporaryFolder folder;
  write_files(folder.path(), small(1002));
  EXPECT_TRUE(fs::exists(folder / "imgs/0/sample_999.png"));
  EXPECT_TRUE(fs::exists(folder / "imgs/1/sample_1.png"));
  EXPECT_FALSE(fs::exists(folder / "imgs/1/sample_2.png"));
  const Drawing drawing = draw(parameters(32, 6), Generator(3).fork(1001));
  EXPECT_EQ(folder.contents("metadata/1.npy").substr(0, 21), "imgs/1 sample_0.png 0");
  const std::string second = folder.contents("metadata/1.npy").substr(folder.contents("metadata/1.npy").find('\n') + 1);
  EXPECT_EQ(second, fmt::format("imgs/1 sample_1.png 1 {} 1.0 6 2 2 0.5 1 1\n", drawing.label));
  const Tensor image = read_png(folder / "imgs/1/sample_1.png");
  const std::vector<uint8_t> pixels = render(drawing);
  EXPECT_EQ(image.shape(), (Shape{32, 32, 1}));
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), image.data<uint8_t>()));
  for (const char* rest : {".making", ".making.lock"}) EXPECT_FALSE(fs::exists(folder / rest));
}

TEST(PathfinderFiles, FoldersAreNamedAsThePublishedOnes) {
  EXPECT_EQ(folder_of(32, 6), "pathfinder32/curv_baseline");
  EXPECT_EQ(folder_of(32, 14), "pathfinder32/curv_contour_length_14");
  EXPECT_EQ(folder_of(16, 2), "pathfinder16/curv_contour_length_2");
}

TEST(PathfinderFiles, DoNotDependOnThreadsAndBeginAlike) {
  const TemporaryFolder folder;
  const int before = threads();
  set_threads(1);
  const Manifest one = write_files(folder / "one", small(1010));
  set_threads(3);
  const Manifest three = write_files(folder / "three", small(1010));
  const Manifest shorter = write_files(folder / "shorter", small(1000));
  set_threads(before);
  EXPECT_EQ(one, three);
  ASSERT_EQ(shorter.files.size(), 2U);
  EXPECT_EQ(shorter.files[0], one.files[0]);
  EXPECT_EQ(shorter.files[1], one.files[1]);
  GeneratorOptions other = small(1000);
  other.seed = 4;
  EXPECT_NE(write_files(folder / "other", other).files[0].sha256, one.files[0].sha256);
}

TEST(PathfinderFiles, EnsureMakesThenVerifiesAndRefusesDamage) {
  const TemporaryFolder folder;
  Told told;
  EXPECT_EQ(ensure_files(folder / "a", small(), told.say()), Ensured::made);
  EXPECT_EQ(ensure_files(folder / "a", small(), told.say()), Ensured::verified);
  EXPECT_EQ(told.lines.back(),
            fmt::format("pathfinder: 40 images in {}, as their manifest says", (folder / "a").string()));
  for (const CheckedFile& file : check_manifest(folder / "a")) EXPECT_EQ(file.state, FileState::right) << file.path;
  EXPECT_NE(
      message_of([&] { ensure_files(folder / "a", small(41), told.say()); }).find("count '40', but 41 is requested"),
      std::string::npos);
  std::string bytes = folder.contents("a/imgs/0/sample_7.png");
  bytes[bytes.size() / 2] ^= 1;
  folder.put("a/imgs/0/sample_7.png", bytes);
  EXPECT_NE(
      message_of([&] { ensure_files(folder / "a", small(), told.say()); }).find("imgs/0: its SHA-256 is not that"),
      std::string::npos);
  EXPECT_EQ(check_manifest(folder / "a")[0].state, FileState::wrong_hash);
  fs::remove_all(folder / "a/imgs/0");
  EXPECT_EQ(ensure_files(folder / "a", small(), told.say()), Ensured::made);
  EXPECT_EQ(ensure_files(folder / "a", small(), told.say()), Ensured::verified);
}

TEST(PathfinderFiles, WhatAKilledProcessLeftIsRemovedAndForeignFilesAreLeftAlone) {
  const TemporaryFolder folder;
  Told told;
  fs::create_directories(folder / "a/.making/imgs/0");
  folder.put("a/.making/imgs/0/sample_0.png", "half");
  EXPECT_EQ(ensure_files(folder / "a", small(), told.say()), Ensured::made);
  EXPECT_FALSE(fs::exists(folder / "a/.making"));
  make_official(folder / "b");
  EXPECT_EQ(ensure_files(folder / "b", small(), told.say()), Ensured::foreign);
  fs::remove_all(folder / "b/metadata");
  EXPECT_NE(message_of([&] { ensure_files(folder / "b", small(), told.say()); }).find("holds 1 of the two folders"),
            std::string::npos);
}

TEST(PathfinderRead, ReturnsEveryImageThatWasMade) {
  const TemporaryFolder folder;
  Told told;
  write_files(folder.path(), small(1020));
  const TaskData data = load_task({.place = {folder.path()}}, told.say());
  EXPECT_EQ(data.task.name, "pathfinder");
  EXPECT_EQ(data.task.classes, 2);
  EXPECT_EQ(data.task.vocabulary, 256);
  EXPECT_EQ(data.task.max_length, 1024);
  EXPECT_EQ(data.train->size(), 816);
  EXPECT_EQ(data.valid->size(), 102);
  EXPECT_EQ(data.test->size(), 102);
  const Parameters p = parameters(32, 6);
  const auto compare = [&](const Dataset& set, int64_t example, uint64_t number) {
    const Drawing drawing = draw(p, Generator(3).fork(number));
    const std::vector<uint8_t> pixels = render(drawing);
    std::vector<int64_t> ids(1024);
    ASSERT_EQ(set.length(example), 1024);
    set.copy_tokens(example, 0, ids);
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), pixels.begin(), pixels.end())) << number;
    EXPECT_EQ(set.label(example), drawing.label) << number;
  };
  compare(*data.train, 0, 0);
  compare(*data.train, 815, 815);
  compare(*data.valid, 3, 819);
  compare(*data.test, 101, 1019);  // of the second folder
  Loader loader(data.train, {.batch_size = 8, .max_length = 1024});
  EXPECT_EQ(loader.next().ids.shape(), (Shape{8, 1024}));
}

TEST(PathfinderRead, ShufflesWithASeed) {
  const TemporaryFolder folder;
  Told told;
  write_files(folder.path(), small(50));
  const auto pictures = [&](uint64_t seed) {
    const TaskData data = load_task({.place = {folder.path()}, .split = Split::shuffled, .seed = seed}, told.say());
    EXPECT_EQ(data.remarks, std::vector<std::string>{"50 images that were made here, not the published ones"});
    std::vector<std::vector<int64_t>> all;
    for (const auto& part : {data.train, data.valid, data.test}) {
      for (int64_t i = 0; i < part->size(); ++i) {
        all.emplace_back(1024);
        part->copy_tokens(i, 0, all.back());
      }
    }
    return all;
  };
  const auto first = pictures(0);
  EXPECT_EQ(first, pictures(0));
  EXPECT_NE(first, pictures(1));
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 50U);
  EXPECT_NE(told.lines.back().find("40 + 5 + 5 images"), std::string::npos) << told.lines.back();
}

TEST(PathfinderRead, WithoutAManifestTheOriginIsUnknown) {
  const TemporaryFolder folder;
  Told told;
  make_official(folder.path());
  const TaskData data = load_task({.place = {folder.path()}, .read = {.partial = true}}, told.say());
  EXPECT_EQ(data.remarks,
            std::vector<std::string>{"40 images of unknown origin, as they have no manifest; 200000 are published"});
}

// The parts are moved one after another, and the manifest, which says where they come from, is last.
TEST(PathfinderRead, WhatAKilledProcessHadFinishedIsTakenUp) {
  const std::vector<std::string> moved = {"imgs", "metadata", Manifest::kFileName};
  for (size_t count = 0; count < moved.size(); ++count) {
    const TemporaryFolder data;
    const fs::path folder = data / "pathfinder32/curv_baseline";
    write_files(folder, small());
    fs::create_directory(folder / ".making");
    for (size_t i = count; i < moved.size(); ++i) fs::rename(folder / moved[i], folder / ".making" / moved[i]);
    data.put("lra_release.gz", "is not read");
    const ArenaFolder place = find(data.path(), 32, 6);
    EXPECT_EQ(place.folder, folder) << count;
    Told told;
    EXPECT_EQ(load_task({.place = place}, told.say()).remarks,
              std::vector<std::string>{"40 images that were made here, not the published ones"});
    EXPECT_FALSE(fs::exists(folder / ".making")) << count;
  }
}

TEST(PathfinderRead, TellsTheDataLog) {
  const TemporaryFolder folder;
  Told told;
  write_files(folder.path(), small());
  const auto hash = [&] {
    const DataLog log;
    read(folder.path(), {}, told.say());
    EXPECT_EQ(log.reads().size(), 1U);
    return log.reads().at(0).sha256;
  };
  const std::string before = hash();
  EXPECT_EQ(hash(), before);
  std::string list = folder.contents("metadata/0.npy");
  const size_t label = list.find(" 0 1 1.0") == std::string::npos ? list.find(" 0 0 1.0") : list.find(" 0 1 1.0");
  list[label + 3] = static_cast<char>(list[label + 3] ^ 1);
  folder.put("metadata/0.npy", list);
  EXPECT_NE(hash(), before);
}

TEST(PathfinderRead, LeavesOutThePublishedEmptyImageAndSaysSo) {
  const TemporaryFolder folder;
  Told told;
  const fs::path data = folder / "curv_baseline";
  make_official(data, 180);
  folder.put("curv_baseline/imgs/0/sample_172.png", "");
  EXPECT_EQ(read(data, {.partial = true}, told.say())->count(), 179);
  EXPECT_EQ(told.lines.back(), (data / "metadata/0.npy").string() +
                                   ": row 173: imgs/0/sample_172.png is empty, as published; it is left out");
  folder.put("curv_baseline/imgs/0/sample_171.png", "");
  const std::string message = message_of_reading(data);
  EXPECT_NE(message.find("0.npy: row 172: "), std::string::npos) << message;
  EXPECT_NE(message.find("sample_171.png: the file is empty"), std::string::npos) << message;
}

TEST(PathfinderRead, RefusesImagesThatAreMissingDamagedOrOfAnotherForm) {
  const TemporaryFolder folder;
  make_official(folder.path());
  const std::string good = folder.contents("imgs/0/sample_4.png");
  const auto begins = (folder / "metadata/0.npy").string() + ": row 5: " + (folder / "imgs/0/sample_4.png").string();
  const auto with = [&](const std::string& bytes) {
    folder.put("imgs/0/sample_4.png", bytes);
    return message_of_reading(folder.path());
  };
  fs::remove(folder / "imgs/0/sample_4.png");
  EXPECT_EQ(message_of_reading(folder.path()), begins + ": there is no such image");
  for (const auto& [shape, said] : {std::pair(Shape{16, 32, 1}, "32 x 16"),
                                    {Shape{31, 33, 1}, "33 x 31"},
                                    {Shape{32, 32, 3}, "32 x 32 of colours"}}) {
    write_png(folder / "imgs/0/sample_4.png", Tensor::zeros(shape, DType::u8));
    EXPECT_EQ(message_of_reading(folder.path()), fmt::format("{}: the image is {}, not 32 x 32 of grey", begins, said));
  }
  write_png(folder / "imgs/0/sample_4.png", Tensor::zeros({64, 64, 1}, DType::u8));
  EXPECT_NE(message_of_reading(folder.path()).find("64 x 64 pixels are more than the 1024"), std::string::npos);
  for (const std::string& bytes : {good.substr(0, good.size() / 2), std::string("no image")}) {
    EXPECT_EQ(with(bytes).substr(0, begins.size()), begins);
  }
  EXPECT_EQ(with(good), "no error");
}

TEST(PathfinderRead, RefusesMalformedLists) {
  const TemporaryFolder folder;
  make_official(folder.path());
  const std::string good = folder.contents("metadata/0.npy");
  const std::string first = good.substr(0, good.find('\n') + 1);
  const auto with = [&](const std::string& list) {
    folder.put("metadata/0.npy", list);
    return message_of_reading(folder.path());
  };
  const std::string file = (folder / "metadata/0.npy").string();
  EXPECT_EQ(with(first + "imgs/0 sample_1.png 1\n"),
            file + ": row 2: 3 fields, but folder, name, number and label are the first 4");
  EXPECT_EQ(with(first + "\n"), file + ": row 2: 0 fields, but folder, name, number and label are the first 4");
  EXPECT_EQ(with(first + "imgs/0 sample_1.png 1 2 1.0\n"), file + ": row 2: the label '2' is neither 0 nor 1");
  EXPECT_EQ(with("../x sample_1.png 1 1\n"), file + ": row 1: 'sample_1.png' in '../x' is no image in this folder");
  EXPECT_EQ(with("imgs/0 /etc/passwd 1 1\n"), file + ": row 1: '/etc/passwd' in 'imgs/0' is no image in this folder");
  EXPECT_EQ(with("imgs/0 \x1b[31m.png 1 1\n"),
            file +
                ": row 1: 'imgs/0/\\x1b[31m.png' is no name of an image: these are of ASCII, and at most 80 "
                "characters long");
  EXPECT_NE(with(std::string("\x93NUMPY\0", 7)).find("row 1: this is no text"), std::string::npos);
  EXPECT_NE(with("").find("metadata: row 1: no image is listed"), std::string::npos);
  EXPECT_EQ(with(good), "no error");
}

TEST(PathfinderRead, TakesEachImageOnce) {
  const TemporaryFolder folder;
  Told told;
  make_official(folder.path());
  const std::string list = folder.contents("metadata/0.npy");
  for (const char* other : {"metadata/00.npy", "metadata/+0.npy", "metadata/0 (copy).npy"}) folder.put(other, list);
  EXPECT_EQ(read(folder.path(), {.partial = true}, told.say())->count(), 40);
  const std::string file = (folder / "metadata/1.npy").string();
  for (const char* same : {"imgs/0 sample_2.png", "imgs/./0 sample_2.png"}) {
    folder.put("metadata/1.npy", std::string(same) + " 2 1\n");
    const std::string message = message_of_reading(folder.path());
    EXPECT_TRUE(message.starts_with(file + ": row 1: 'imgs/")) << message;
    EXPECT_NE(message.find("sample_2.png' is listed already in " + (folder / "metadata/0.npy").string() + ": row 3"),
              std::string::npos)
        << message;
  }
}

TEST(PathfinderRead, RefusesOtherThanTheImagesPublishedOrPromised) {
  const TemporaryFolder folder;
  Told told;
  make_official(folder / "official");
  EXPECT_EQ(message_of_reading(folder / "official", false),
            (folder / "official/metadata/0.npy").string() +
                ": row 40: the list ends here: 40 images are listed, of the 200000 that are published; add the others, "
                "or ask for these with the option partial");
  EXPECT_EQ(read(folder / "official", {.partial = true}, told.say())->count(), 40);
  EXPECT_NE(told.lines.back().find("40 images are listed, of the 200000 that are published"), std::string::npos);
  write_files(folder / "made", small());
  EXPECT_EQ(message_of_reading(folder / "made", false), "no error");
  const std::string list = folder.contents("made/metadata/0.npy");
  folder.put("made/metadata/0.npy", list + "imgs/0 sample_40.png 40 1\n");
  EXPECT_NE(message_of_reading(folder / "made").find("row 41: an image more than the 40 that the manifest tells of"),
            std::string::npos);
  folder.put("made/metadata/0.npy", list.substr(0, list.find('\n') + 1));
  EXPECT_NE(
      message_of_reading(folder / "made", false).find("row 1: the list ends here: 1 images are listed, of the 40"),
      std::string::npos);
  EXPECT_NE(message_of([&] { load_task({.place = {folder / "none"}}, told.say()); }).find("./run data make pathfinder"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner::pathfinder
