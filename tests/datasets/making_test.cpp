// Data that several threads, standing for processes, make in one folder at once, while some attempts fail.
#include "datasets/making.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "datasets/catalogue.h"
#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/io/temporary.h"
#include "tests/files.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

Recipe recipe(bool fails) {
  Recipe recipe;
  recipe.dataset = "small";
  recipe.parts = {"a", "b", "c"};
  recipe.parts_in_words = "three files";
  recipe.make = [fails](const fs::path& folder) {
    if (fails) fail("no data");
    Manifest manifest{"small", {}, {}};
    for (const char* part : {"a", "b", "c"}) {
      test::put(folder / part, part);
      manifest.files.push_back(entry_of(folder, part, 1));
    }
    return manifest;
  };
  return recipe;
}

/// What ensure_made reports, thrown or not, if `count` threads call it in one folder, `times` each.
std::multiset<std::string> ends_of(const fs::path& folder, size_t count, int times, bool fails) {
  std::vector<std::multiset<std::string>> ends(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < times; ++k) {
        std::string end;
        try {
          const Ensured ensured = ensure_made(folder, recipe(fails), [](const std::string&) {});
          end = ensured == Ensured::made ? "made" : ensured == Ensured::verified ? "verified" : "foreign";
        } catch (const std::exception& error) {
          end = error.what();
        }
        ends[i].insert(end);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 1; i < count; ++i) ends[0].merge(ends[i]);
  return ends[0];
}

TEST(Making, SeveralAtOnceEndWithOneWholeSet) {
  const test::TemporaryFolder folder;
  for (int round = 0; round < 10; ++round) {
    const fs::path data = folder / fmt::format("data{}/below", round);
    EXPECT_EQ(ends_of(data, 3, 1, false), (std::multiset<std::string>{"made", "verified", "verified"})) << round;
    EXPECT_EQ(std::distance(fs::directory_iterator(data), fs::directory_iterator()), 4) << round;
    for (const CheckedFile& file : check_manifest(data)) EXPECT_EQ(file.state, FileState::right) << file.path;
  }
}

// An attempt that fails removes the folders it has made, which another may just have found there.
TEST(Making, WhatFailsBesideOthersTakesNoFolderFromThem) {
  const test::TemporaryFolder folder;
  for (int round = 0; round < 10; ++round) {
    const fs::path data = folder / fmt::format("data{}/below", round);
    const std::multiset<std::string> ends = ends_of(data, 4, 1, true);
    EXPECT_EQ(ends.count("no data"), 4U) << *ends.begin() << "\n" << *ends.rbegin();
    EXPECT_EQ(ends_of(data, 1, 1, false).count("made"), 1U);
  }
}

// As if another process were lost: one thread removes what is temporary and ends the program, while another makes data.
TEST(Making, IsTakenUpAgainWhereverTheProgramEnded) {
  const test::TemporaryFolder folder;
  for (int round = 0; round < 100; ++round) {
    const fs::path data = folder / fmt::format("data{}", round);
    std::atomic<bool> made = false;
    std::thread ending([&] {
      while (!made) remove_temporaries();
    });
    const std::multiset<std::string> interrupted = ends_of(data, 1, 1, false);
    made = true;
    ending.join();
    const std::multiset<std::string> again = ends_of(data, 1, 1, false);
    EXPECT_TRUE(again.contains("made") || again.contains("verified"))
        << round << ": " << *interrupted.begin() << ", " << *again.begin();
    for (const CheckedFile& file : check_manifest(data)) EXPECT_EQ(file.state, FileState::right) << file.path;
  }
}

}  // namespace
}  // namespace bochner
