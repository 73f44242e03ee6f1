#include "datasets/listops/files.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "datasets/listops/expression.h"
#include "engine/io/file.h"
#include "engine/io/file_lock.h"
#include "engine/io/sha256.h"
#include "engine/parallel.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner::listops {
namespace {

using test::message_of;
using test::TemporaryFolder;

GeneratorOptions small() {
  GeneratorOptions options;
  options.min_length = 5;
  options.max_length = 60;
  options.train = 200;
  options.valid = 20;
  options.test = 30;
  return options;
}

struct Told {
  std::vector<std::string> lines;
  Say say() {
    return [this](const std::string& line) { lines.push_back(line); };
  }
};

TEST(ListOpsFiles, AreOfficialTables) {
  const TemporaryFolder folder;
  const GeneratorOptions options = small();
  write_files(folder.path(), options);
  const std::vector<Expression> trees = generate(options);
  auto tree = trees.begin();
  for (const auto& [name, rows] :
       {std::pair(kTrainFile, options.train), {kValidFile, options.valid}, {kTestFile, options.test}}) {
    std::string expected = "Source\tTarget\n";
    for (int64_t i = 0; i < rows; ++i, ++tree) {
      expected += fmt::format("{}\t{}\n", tree->str(), evaluate(tree->str()));
    }
    EXPECT_EQ(folder.contents(name), expected) << name;
  }
}

TEST(ListOpsFiles, ManifestHoldsSizesRowsHashesAndOptions) {
  const TemporaryFolder folder;
  const Manifest written = write_files(folder.path(), small());
  EXPECT_EQ(read_manifest(folder.path()), written);
  ASSERT_EQ(written.files.size(), 3U);
  EXPECT_EQ(written.files[0].name, "basic_train.tsv");
  EXPECT_EQ(written.files[0].rows, 200);
  EXPECT_EQ(written.files[1].rows, 20);
  EXPECT_EQ(written.files[2].rows, 30);
  for (const ManifestFile& file : written.files) {
    const std::string text = folder.contents(file.name);
    EXPECT_EQ(file.bytes, static_cast<int64_t>(text.size()));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), file.rows + 1);
    EXPECT_EQ(file.sha256, sha256_of_file(folder.path() / file.name));
  }
  EXPECT_EQ(written.options.at("max_length"), "60");
  EXPECT_EQ(written.options.at("operators"), "MIN MAX MED SM");
  EXPECT_EQ(written.options.at("value_probability"), "0.75");
}

TEST(ListOpsFiles, DoNotDependOnThreads) {
  const TemporaryFolder folder;
  GeneratorOptions options = small();
  options.train = 5'000;  // more than one round of writing
  const int before = threads();
  set_threads(1);
  const Manifest one = write_files(folder / "one", options);
  set_threads(3);
  const Manifest three = write_files(folder / "three", options);
  set_threads(before);
  EXPECT_EQ(one, three);
}

// This hash never changes: a different one means different data for the same options, which requires a new kVersion.
TEST(ListOpsFiles, SeedZeroGivesTheFilesItAlwaysGave) {
  const TemporaryFolder folder;
  const Manifest manifest = write_files(folder.path(), small());
  EXPECT_EQ(manifest.options.at("generator"), "1");
  EXPECT_EQ(manifest.files[2].sha256, "ad6e94782b10085dfb22be5403304cda145e12b31d289887651fd2936d40cbc1");
}

TEST(ListOpsFiles, EnsureMakesThenVerifies) {
  const TemporaryFolder folder;
  Told told;
  const std::filesystem::path data = folder / "a/b";
  EXPECT_EQ(ensure_files(data, small(), told.say()), Ensured::made);
  ASSERT_EQ(told.lines.size(), 2U);
  EXPECT_EQ(told.lines[0],
            fmt::format("listops: making 200 + 20 + 30 expressions with seed 0 in {} ...", data.string()));
  EXPECT_EQ(told.lines[1].substr(0, 15), "listops: made, ");
  EXPECT_EQ(ensure_files(data, small(), told.say()), Ensured::verified);
  EXPECT_EQ(told.lines.back(), fmt::format("listops: 250 expressions in {}, as their manifest says", data.string()));
}

TEST(ListOpsFiles, EnsureMakesTheSameAgainWhereOneIsMissing) {
  const TemporaryFolder folder;
  Told told;
  const Manifest first = write_files(folder.path(), small());
  std::filesystem::remove(folder / kValidFile);
  EXPECT_EQ(ensure_files(folder.path(), small(), told.say()), Ensured::made);
  EXPECT_EQ(read_manifest(folder.path()), first);
  EXPECT_EQ(ensure_files(folder.path(), small(), told.say()), Ensured::verified);
}

TEST(ListOpsFiles, EnsureRefusesDamagedFilesAndTouchesNothing) {
  const TemporaryFolder folder;
  Told told;
  write_files(folder.path(), small());
  std::string text = folder.contents(kTestFile);
  for (char& c : text) {
    if (c == '3') {
      c = '4';
      break;
    }
  }
  folder.put(kTestFile, text);
  const std::string message = message_of([&] { ensure_files(folder.path(), small(), told.say()); });
  EXPECT_NE(message.find("basic_test.tsv: its SHA-256 is not that of"), std::string::npos) << message;
  EXPECT_EQ(folder.contents(kTestFile), text);
  folder.put(kTrainFile, "Source\tTarget\n");
  EXPECT_NE(message_of([&] { ensure_files(folder.path(), small(), told.say()); }).find("basic_train.tsv: its size is"),
            std::string::npos);
  EXPECT_TRUE(told.lines.empty());
}

TEST(ListOpsFiles, EnsureRefusesOtherOptionsAndOtherData) {
  const TemporaryFolder folder;
  Told told;
  write_files(folder.path(), small());
  GeneratorOptions options = small();
  options.seed = 5;
  EXPECT_EQ(message_of([&] { ensure_files(folder.path(), options, told.say()); }),
            folder.path().string() +
                ": holds listops made with seed '0', but 5 is requested; choose another folder, or "
                "remove its files to have them made again");
  write_manifest(folder.path(), {"pathfinder", {}, {}});
  EXPECT_NE(message_of([&] { ensure_files(folder.path(), small(), told.say()); }).find("'pathfinder', not listops"),
            std::string::npos);
}

TEST(ListOpsFiles, EnsureLeavesForeignFilesAloneButNotAPartOfThem) {
  const TemporaryFolder folder;
  Told told;
  for (const char* name : {kTrainFile, kValidFile}) folder.put(name, "Source\tTarget\n7\t7\n");
  EXPECT_NE(message_of([&] {
              ensure_files(folder.path(), small(), told.say());
            }).find("holds 2 of the three files basic_{train,val,test}.tsv and no manifest"),
            std::string::npos);
  folder.put(kTestFile, "Source\tTarget\n7\t7\n");
  EXPECT_EQ(ensure_files(folder.path(), small(), told.say()), Ensured::foreign);
  EXPECT_EQ(folder.contents(kTrainFile), "Source\tTarget\n7\t7\n");
  ASSERT_EQ(told.lines.size(), 1U);
  EXPECT_NE(told.lines[0].find("have no manifest; left as they are"), std::string::npos);
}

/// The names in the folder, including hidden ones.
std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

const std::set<std::string> kComplete = {kTrainFile, kValidFile, kTestFile, "manifest.json"};

TEST(ListOpsFiles, WhatAKilledProcessWasMakingIsMadeAnewOrMovedIntoPlace) {
  const TemporaryFolder folder;
  Told told;
  const Manifest whole = write_files(folder / "whole", small());
  EXPECT_EQ(names_in(folder / "whole"), kComplete);
  // Killed after it had made `made` of the four files or, if all were made, after it had moved `moved` of them.
  const std::vector<std::string> all = {kTrainFile, kValidFile, kTestFile, "manifest.json"};
  for (const auto& [made, moved] : {std::pair<size_t, size_t>{0, 0}, {1, 0}, {3, 0}, {4, 0}, {4, 1}, {4, 3}, {4, 4}}) {
    const std::filesystem::path cut = folder / fmt::format("cut{}{}", made, moved).c_str();
    std::filesystem::create_directories(cut / ".making");
    write_file_atomically(cut / ".making.lock", "1");
    if (made < 4) write_file_atomically(cut / ".making/basic_train.tsv.tmp-1-1", "half");
    for (size_t i = 0; i < made; ++i) {
      std::filesystem::copy_file(folder / "whole" / all[i], cut / (i < moved ? "" : ".making") / all[i]);
    }
    const Ensured done = ensure_files(cut, small(), told.say());
    EXPECT_EQ(done, made == 4 ? Ensured::verified : Ensured::made) << made << moved;
    EXPECT_EQ(names_in(cut), kComplete) << made << moved;
    EXPECT_EQ(read_manifest(cut), whole);
    EXPECT_EQ(ensure_files(cut, small(), told.say()), Ensured::verified);
  }
}

TEST(ListOpsFiles, TwoProcessesDoNotMakeThemAtOnce) {
  const TemporaryFolder folder;
  Told told;
  auto other = std::make_optional<FileLock>(folder / ".making.lock", "no lock", "");
  std::thread second([&] { ensure_files(folder.path(), small(), told.say()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{".making.lock"});
  other.reset();
  second.join();
  EXPECT_EQ(names_in(folder.path()), kComplete);
  EXPECT_NE(told.lines.at(0).find(fmt::format("process {} is making the files", getpid())), std::string::npos)
      << told.lines[0];
}

TEST(ListOpsFiles, AFolderThatCanNotBeMadeIsAnError) {
  const TemporaryFolder folder;
  folder.put("file", "x");
  EXPECT_NE(message_of([&] { write_files(folder / "file/data", small()); }).find("the folder cannot be made"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner::listops
