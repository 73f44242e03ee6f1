#include "datasets/manifest.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;
using test::TemporaryFolder;

const std::string kHash(64, 'a');

TEST(Manifest, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  EXPECT_FALSE(has_manifest(folder.path()));
  const Manifest manifest = {
      "listops", {{"seed", "7"}, {"odd \"name\"", "\n"}}, {{"a.tsv", 12, 3, kHash}, {"b", 0, 0, kHash}}};
  write_manifest(folder.path(), manifest);
  EXPECT_TRUE(has_manifest(folder.path()));
  EXPECT_EQ(read_manifest(folder.path()), manifest);
}

TEST(Manifest, TellsWhatBecameOfAFile) {
  const TemporaryFolder folder;
  folder.put("abc", "abc");
  const ManifestFile file = {"abc", 3, 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"};
  EXPECT_EQ(state_of(folder.path(), file), FileState::right);
  folder.put("abc", "abd");
  EXPECT_EQ(state_of(folder.path(), file), FileState::wrong_hash);
  folder.put("abc", "ab");
  EXPECT_EQ(state_of(folder.path(), file), FileState::wrong_size);
  std::filesystem::remove(folder / "abc");
  EXPECT_EQ(state_of(folder.path(), file), FileState::missing);
  ASSERT_EQ(mkfifo((folder / "abc").c_str(), 0600), 0);  // reading it would never end
  EXPECT_EQ(state_of(folder.path(), file), FileState::missing);
  std::filesystem::create_directory(folder / "many");
  std::filesystem::rename(folder / "abc", folder / "many/abc");
  EXPECT_EQ(message_of([&] { entry_of(folder.path(), "many", 1); }),
            (folder / "many/abc").string() + ": is no regular file; remove it");
}

TEST(Manifest, BadFilesAreErrorsThatNameIt) {
  const TemporaryFolder folder;
  const std::string good = R"({"name": "a", "bytes": 1, "rows": 1, "sha256": ")" + kHash + "\"}";
  const auto with = [](const std::string& files) {
    return R"({"dataset": "d", "options": {}, "files": [)" + files + "]}";
  };
  folder.put(Manifest::kFileName, with(good));
  EXPECT_EQ(read_manifest(folder.path()).files.size(), 1U);
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    return with(text.replace(text.find(what), what.size(), by));
  };
  const std::string deep(100'000, '[');
  for (const std::string& text : {std::string(),
                                  std::string("{"),
                                  std::string("[]"),
                                  std::string("null"),
                                  std::string("{}"),
                                  with(good) + std::string("\0{", 2),
                                  deep,
                                  std::string(R"({"dataset": "d", "dataset": "e", "options": {}, "files": []})"),
                                  with("1"),
                                  with("{}"),
                                  with(good + ","),
                                  replaced("\"a\"", "\"../a\""),
                                  replaced("\"a\"", "\"\""),
                                  replaced("\"a\"", "\"..\""),
                                  replaced("\"a\"", "\"/etc/passwd\""),
                                  replaced("\"a\"", "\"a\\u0000b\""),
                                  replaced("\"a\"", "5"),
                                  replaced("1", "-1"),
                                  replaced("1", "1.5"),
                                  replaced("1", "1e300"),
                                  replaced("1", "18446744073709551615"),
                                  replaced("1", "\"1\""),
                                  replaced("aaaa\"}", "aaa\"}"),
                                  replaced("aaaa\"}", "aaaA\"}"),
                                  std::string(R"({"dataset": 1, "options": {}, "files": []})"),
                                  std::string(R"({"dataset": "d", "options": {"a": 1}, "files": []})"),
                                  std::string(R"({"dataset": "d", "options": [], "files": []})"),
                                  std::string("{\"dataset\": \"\xff\", \"options\": {}, \"files\": []}")}) {
    folder.put(Manifest::kFileName, text);
    const std::string start = (folder / Manifest::kFileName).string() + ": no manifest: ";
    const std::string message = message_of([&] { read_manifest(folder.path()); });
    EXPECT_EQ(message.substr(0, start.size()), start) << text.substr(0, 200) << "\n" << message;
  }
  std::filesystem::remove(folder / Manifest::kFileName);
  EXPECT_NE(message_of([&] { read_manifest(folder.path()); }), "no error");
}

}  // namespace
}  // namespace bochner
