#include "engine/io/paths.h"

#include <gtest/gtest.h>

#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

TEST(Paths, AFolderWithoutTheFileLeadsToThoseBelowThatHaveIt) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder / "run/empty");
  const std::string run = (folder / "run").string();
  const auto refused = [&](const std::string& name) {
    return test::message_of([&] { file_in(folder / name, "a.json"); });
  };
  EXPECT_EQ(refused("run"), run + ": holds no a.json");
  for (const char* below : {"run/two", "run/one"}) {
    fs::create_directories(folder / below);
    test::put(folder / below / "a.json", "{}");
  }
  EXPECT_EQ(refused("run"), fmt::format("{0}: holds no a.json; name one of those below it: {0}/one, {0}/two", run));
  EXPECT_EQ(file_in(folder / "run/one", "a.json"), folder / "run/one/a.json");
  EXPECT_EQ(refused("nowhere"), (folder / "nowhere").string() + ": there is no such folder; check the path");
  EXPECT_EQ(refused("run/one/a.json"), run + "/one/a.json: is no folder; name the one that holds a.json");
}

TEST(Paths, OneFileHasManyNames) {
  const test::TemporaryFolder folder;
  test::put(folder / "a", "");
  test::put(folder / "b", "");
  fs::create_symlink(folder / "a", folder / "link");
  EXPECT_TRUE(is_same(folder / "a", folder / "link"));
  EXPECT_FALSE(is_same(folder / "a", folder / "b"));
  EXPECT_FALSE(is_same(folder / "nowhere", folder / "nowhere"));
}

TEST(Paths, WhatIsThereIsNotWrittenOver) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& name) {
    return test::message_of([&] { require_unused(folder / name, "to"); });
  };
  fs::create_directories(folder / "empty");
  require_unused(folder / "empty", "to");
  require_unused(folder / "new", "to");
  require_unused("", "to");
  fs::create_directories(folder / "full");
  test::put(folder / "full/a", "");
  EXPECT_EQ(refused("full"),
            "--to=" + (folder / "full").string() + ": that folder holds files already; name another, or an empty one");
  EXPECT_EQ(refused("full/a"), "--to=" + (folder / "full/a").string() + ": there is such a file already; name another");
}

}  // namespace
}  // namespace bochner
