#include "datasets/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/sha256.h"
#include "tests/files.h"
#include "tests/shared_data.h"

namespace bochner {
namespace {

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(bytes_of(text));
  return hash.hex();
}

TEST(Catalogue, KnowsAPublishedFileByItsName) {
  const auto sets = [](const char* path) {
    std::vector<std::string> names;
    for (const PublishedFile& file : published_as(path)) names.push_back(file.set);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(sets("data/mnist/train-labels-idx1-ubyte"), Names{"mnist"});
  EXPECT_EQ(sets("fashion-mnist/train-labels-idx1-ubyte.gz"), Names{"fashion-mnist"});
  EXPECT_EQ(sets("elsewhere/train-labels-idx1-ubyte.gz"), (Names{"mnist", "fashion-mnist"}));
  EXPECT_EQ(sets("adult.data"), Names{"uci/adult"});
  EXPECT_EQ(sets("my.csv"), Names{});
}

TEST(Catalogue, ANameThatOthersHaveTooIsExpectedInItsFolderAlone) {
  const auto expected = [](const char* path) {
    const std::vector<PublishedFile> files = published_as(path);
    EXPECT_FALSE(files.empty()) << path;
    return std::any_of(files.begin(), files.end(), [](const PublishedFile& file) { return file.expected; });
  };
  EXPECT_TRUE(expected("data/bert/vocab.txt"));
  EXPECT_FALSE(expected("runs/mine/model/vocab.txt"));
  EXPECT_TRUE(expected("data/glue/SST-2/train.tsv"));
  EXPECT_FALSE(expected("mine/train.tsv"));
  EXPECT_TRUE(expected("elsewhere/adult.data"));
}

TEST(Catalogue, AFileIsRightPlainOrPacked) {
  const test::TemporaryFolder folder;
  const std::string text = "a\tb\n1\t2\n";
  const KnownFile file = {"set/table.tsv", static_cast<int64_t>(text.size()), sha256(text)};
  const std::filesystem::path plain = folder.path() / file.path;
  const std::filesystem::path packed = plain.string() + ".gz";
  const auto state = [&] { return check_file(folder.path(), file).state; };
  EXPECT_EQ(state(), FileState::missing);
  std::filesystem::create_directories(plain);
  EXPECT_EQ(check_file(folder.path(), file).what, "is no file");
  std::filesystem::remove(plain);
  std::filesystem::create_symlink("nowhere", plain);
  EXPECT_EQ(check_file(folder.path(), file).what, "is a link to a file that is missing");
  std::filesystem::remove(plain);
  write_file_atomically(packed, format_gzip(bytes_of(text)));
  EXPECT_EQ(state(), FileState::right);
  EXPECT_EQ(check_file(folder.path(), file).path, packed);
  write_file_atomically(plain, text);
  EXPECT_EQ(check_file(folder.path(), file).path, plain);
  EXPECT_EQ(state(), FileState::right);
}

TEST(Catalogue, TellsWhatIsWrong) {
  const test::TemporaryFolder folder;
  const std::string text(1000, 'x');
  const KnownFile file = {"x", 1000, sha256(text)};
  const auto what = [&](const std::string& bytes) {
    write_file_atomically(folder.path() / "x", bytes);
    const CheckedFile checked = check_file(folder.path(), file);
    EXPECT_NE(checked.state, FileState::right);
    return checked.what;
  };
  EXPECT_EQ(what(text.substr(1)), "has 999 bytes, it should have 1000");
  EXPECT_EQ(what(text + "x"), "has more than the 1000 bytes it should have");
  EXPECT_EQ(what(text.substr(1) + "y"), "its SHA-256 is not the one it should have");
  const std::vector<std::byte> packed = format_gzip(bytes_of(text));
  const std::string damaged(text_of(std::span(packed).first(packed.size() - 1)));
  EXPECT_NE(what(damaged).find("cut short"), std::string::npos);
}

TEST(Catalogue, NamesEveryFileOnceWithAHashThatCanBe) {
  std::set<std::string> paths;
  for (const KnownSet& set : known_sets()) {
    EXPECT_FALSE(set.files.empty()) << set.name;
    EXPECT_FALSE(set.source.empty()) << set.name;
    for (const KnownFile& file : set.files) {
      EXPECT_TRUE(paths.insert(file.path).second) << file.path;
      EXPECT_GT(file.bytes, 0);
      EXPECT_EQ(file.sha256.size(), 64U);
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), std::string::npos);
    }
  }
}

TEST(Catalogue, KnowsThePublishedFiles) {
  const std::filesystem::path folder = test::shared_data(".");
  if (folder.empty()) GTEST_SKIP() << "no real data beside the sources";
  for (const KnownSet& set : known_sets()) {
    for (const KnownFile& file : set.files) {
      const CheckedFile checked = check_file(folder, file);
      EXPECT_TRUE(checked.state == FileState::right || checked.state == FileState::missing)
          << file.path << checked.what;
    }
  }
}

}  // namespace
}  // namespace bochner
