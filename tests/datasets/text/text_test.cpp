#include "datasets/text/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "datasets/catalogue.h"
#include "datasets/loader.h"
#include "datasets/text/imdb.h"
#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/parallel.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/shared_data.h"
#include "tests/tar.h"

namespace bochner::text {
namespace {

using test::message_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;

void ignore(const std::string&) {}

/// `count` reviews of each class and half, of different lengths; one of them is not UTF-8.
std::map<std::string, std::string> reviews(int count) {
  std::map<std::string, std::string> files;
  for (const char* half : {"train", "test"}) {
    for (const char* sentiment : {"neg", "pos"}) {
      for (int i = 0; i < count; ++i) {
        const std::string text = fmt::format("{} {} {}", half, sentiment, std::string(static_cast<size_t>(i), '!'));
        files[fmt::format("{}/{}/{}_{}.txt", half, sentiment, i, sentiment[0] == 'n' ? 1 + i % 4 : 7 + i % 4)] = text;
      }
    }
  }
  files["train/neg/0_1.txt"] = "\xff\xfe<br />";
  files["train/urls_neg.txt"] =
      "http://www.imdb.com/title/tt1/usercomments\r\nhttp://www.imdb.com/title/tt2/usercomments";
  files["train/unsup/0_0.txt"] = "not looked at";
  files["README"] = "nor this";
  return files;
}

void write_folder(const fs::path& folder, const std::map<std::string, std::string>& files) {
  for (const auto& [name, text] : files) {
    fs::create_directories((folder / "aclImdb" / name).parent_path());
    write_file_atomically(folder / "aclImdb" / name, text);
  }
}

std::string tar(const std::map<std::string, std::string>& files) {
  std::map<std::string, std::string> below;
  for (const auto& [name, text] : files) below["aclImdb/" + name] = text;
  return test::tar_of(below);
}

std::map<std::string, std::string> half_of(const std::map<std::string, std::string>& files, const std::string& half) {
  std::map<std::string, std::string> chosen;
  for (const auto& [name, text] : files) {
    if (name.starts_with(half)) chosen[name] = text;
  }
  return chosen;
}

std::string error_of(const fs::path& folder, bool partial = true) {
  return message_of([&] { read_imdb(folder, partial); });
}

TEST(Imdb, IsTheSameFromEachLayout) {
  const auto files = reviews(12);
  const TemporaryFolder folder;
  for (const char* layout : {"packed", "halves"}) fs::create_directory(folder / layout);
  write_folder(folder / "unpacked", files);
  write_file_atomically(folder / "packed" / "aclImdb_v1.tar.gz", format_gzip(bytes_of(tar(files))));
  write_file_atomically(folder / "halves" / "aclImdb_train.tar", tar(half_of(files, "train")));
  write_file_atomically(folder / "halves" / "aclImdb_test.tar", tar(half_of(files, "test")));
  std::vector<std::string> hashes;
  for (const char* layout : {"unpacked", "packed", "halves"}) {
    const DataLog log;
    const Reviews reviews = read_imdb(folder / layout, true);
    ASSERT_EQ(reviews.train.count(), 24);
    ASSERT_EQ(reviews.train.negatives(), 12);
    EXPECT_EQ(reviews.train.texts[0], "\xff\xfe<br />");
    EXPECT_EQ(reviews.train.texts[11], "train neg !!!!!!!!!!!");
    EXPECT_EQ(reviews.test.texts[12 + 2], "test pos !!");
    EXPECT_EQ(reviews.train.numbers[12 + 10], 10);  // by number, not alphabetically
    EXPECT_EQ(reviews.train.urls_negative.size(), 2U);
    EXPECT_EQ(reviews.train.urls_negative[0], "http://www.imdb.com/title/tt1/usercomments");
    ASSERT_EQ(log.reads().size(), 2U);
    hashes.push_back(log.reads()[0].sha256 + log.reads()[1].sha256 + reviews.train.urls_sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

TEST(Imdb, RefusesWhatIsDamaged) {
  const auto with = [](const std::string& name, const std::string& text, const std::string& without = "") {
    auto files = reviews(3);
    files.erase(without);
    if (!name.empty()) files[name] = text;
    const TemporaryFolder folder;
    write_folder(folder.path(), files);
    return error_of(folder.path());
  };
  EXPECT_NE(with("train/pos/5_8.txt", "").find("train/pos/5_8.txt: the review is empty"), std::string::npos);
  EXPECT_NE(with("train/pos/5.txt", "x").find("the name is not NUMBER_SCORE.txt"), std::string::npos);
  EXPECT_NE(with("train/pos/5_x.txt", "x").find("the name is not NUMBER_SCORE.txt"), std::string::npos);
  EXPECT_NE(with("train/pos/5_4.txt", "x").find("a score of 4 is not that of a positive review"), std::string::npos);
  EXPECT_NE(with("test/neg/1_4.txt", "x").find("test/neg holds two reviews of number 1"), std::string::npos);
  EXPECT_EQ(with("", ""), "no error");
  const TemporaryFolder none;
  EXPECT_NE(error_of(none.path()).find("put aclImdb_v1.tar.gz there as it is"), std::string::npos);
  write_folder(none.path(), reviews(3));
  EXPECT_NE(error_of(none.path(), false).find("train/neg holds 3 reviews, not the 12500 that are published"),
            std::string::npos);
}

TEST(Imdb, RefusesMoreThanIsPublishedBeforeItIsInMemory) {
  std::map<std::string, std::string> files = reviews(1);
  for (int64_t i = 0; i <= kReviewsPerClass; ++i) files[fmt::format("train/neg/{}_1.txt", i)] = "x";
  const TemporaryFolder folder;
  folder.put("aclImdb_v1.tar", tar(files));
  const std::string many = error_of(folder.path());
  EXPECT_NE(many.find("_1.txt': is one more than the 12500 reviews that are published of its kind"), std::string::npos)
      << many;
  fs::remove(folder / "aclImdb_v1.tar");
  write_folder(folder.path(), reviews(1));
  folder.put("long", std::string(size_t{1} << 20U, 'x'));
  for (int i = 1; i <= 128; ++i) {
    fs::create_symlink(folder / "long", folder.path() / "aclImdb/train/pos" / fmt::format("{}_7.txt", i));
  }
  const std::string large = error_of(folder.path());
  EXPECT_NE(large.find("the reviews so far have more than 134217728 bytes"), std::string::npos) << large;
}

TEST(Imdb, ACutArchiveIsNamedWithItsFile) {
  const std::string whole = tar(reviews(3));
  const TemporaryFolder folder;
  folder.put("aclImdb_v1.tar", std::string_view(whole).substr(0, whole.size() / 2));
  const std::string message = error_of(folder.path());
  EXPECT_NE(message.find("aclImdb_v1.tar: "), std::string::npos) << message;
  EXPECT_NE(message.find("in or behind 'aclImdb/t"), std::string::npos) << message;
  fs::remove(folder / "aclImdb_v1.tar");
  folder.put("aclImdb_train.tar", tar(half_of(reviews(3), "train")));
  EXPECT_NE(error_of(folder.path()).find("there are no reviews of test; put aclImdb_v1.tar.gz there"),
            std::string::npos);
}

TEST(Text, HoldsATenthOfEachClassOut) {
  const TemporaryFolder folder;
  write_folder(folder.path(), reviews(20));
  const TaskData data = load_task({.folder = folder.path(), .partial = true}, ignore);
  EXPECT_EQ(data.train->size(), 36);
  EXPECT_EQ(data.valid->size(), 4);
  EXPECT_EQ(data.test->size(), 40);
  const auto classes = [](const Dataset& set) {
    int64_t sum = 0;
    for (int64_t i = 0; i < set.size(); ++i) sum += set.label(i);
    return sum;
  };
  EXPECT_EQ(classes(*data.train), 18);
  EXPECT_EQ(classes(*data.valid), 2);
  const auto& valid = dynamic_cast<const ByteTexts&>(*data.valid);
  EXPECT_EQ(valid.text(0), "train neg " + std::string(18, '!'));
  EXPECT_EQ(valid.text(3), "train pos " + std::string(19, '!'));
  ASSERT_EQ(data.remarks.size(), 1U);
  EXPECT_EQ(data.remarks[0], "only 40 + 40 of the 25000 + 25000 published reviews");
}

TEST(Text, ValidatesOnTheTestSetWhereThePapersDo) {
  const TemporaryFolder folder;
  write_folder(folder.path(), reviews(3));
  for (const Split split : {Split::arena, Split::kl, Split::skyformer}) {
    const TaskData data = load_task({.folder = folder.path(), .split = split, .partial = true}, ignore);
    EXPECT_EQ(data.train->size(), 6);
    ASSERT_EQ(data.valid->size(), data.test->size());
    for (int64_t i = 0; i < data.test->size(); ++i) {
      EXPECT_EQ(dynamic_cast<const ByteTexts&>(*data.valid).text(i),
                dynamic_cast<const ByteTexts&>(*data.test).text(i));
    }
    EXPECT_NE(data.remarks.at(0).find("validation is the test set"), std::string::npos);
  }
}

TEST(Text, TokensAreBytesPlusOne) {
  const TemporaryFolder folder;
  write_folder(folder.path(), reviews(10));
  const TaskData data = load_task({.folder = folder.path(), .max_length = 6, .partial = true}, ignore);
  EXPECT_EQ(data.task.vocabulary, 257);
  std::vector<int64_t> ids(8);
  data.train->copy_tokens(0, 0, ids);
  EXPECT_EQ(ids, (std::vector<int64_t>{256, 255, '<' + 1, 'b' + 1, 'r' + 1, ' ' + 1, '/' + 1, '>' + 1}));
  EXPECT_THROW(data.train->label(data.train->size()), Error);
  Loader loader(data.train,
                {.batch_size = 4, .max_length = data.task.max_length, .least_length = data.task.max_length});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.ids.shape(), (Shape{4, 6}));
}

// Batches continue where they stopped, and are the same with any number of threads.
TEST(Text, OrderGoesOn) {
  const TemporaryFolder folder;
  write_folder(folder.path(), reviews(10));
  std::vector<std::vector<int64_t>> orders;
  for (const int count : {1, 2}) {
    set_threads(count);
    const TaskData data = load_task({.folder = folder.path(), .partial = true}, ignore);
    Loader loader(data.train, {.batch_size = 4, .seed = 5});
    std::vector<int64_t> order;
    for (int i = 0; i < 12; ++i) {
      for (const int64_t id : loader.next().examples) order.push_back(id);
    }
    Loader again(data.train, {.batch_size = 4, .seed = 5});
    again.go_to(6);
    std::vector<int64_t> rest;
    for (int i = 6; i < 12; ++i) {
      for (const int64_t id : again.next().examples) rest.push_back(id);
    }
    EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), order.rbegin()));
    orders.push_back(order);
  }
  set_threads(1);
  EXPECT_EQ(orders[0], orders[1]);
}

TEST(Text, ThePublishedReviewsAreRight) {
  const fs::path folder = test::shared_data("imdb");
  if (folder.empty()) GTEST_SKIP() << "no real data here";
  const auto& sets = known_sets();
  const auto imdb = std::find_if(sets.begin(), sets.end(), [](const KnownSet& set) { return set.name == "imdb"; });
  ASSERT_NE(imdb, sets.end());
  for (const CheckedFile& file : check_set(folder.parent_path(), *imdb)) {
    EXPECT_EQ(file.state, FileState::right) << file.path << " " << file.what;
  }
}

TEST(Imdb, CheckTellsWhatIsMissingIncompleteAndBroken) {
  const TemporaryFolder data;
  using States = std::vector<FileState>;
  std::vector<CheckedFile> checked;
  const auto states = [&] {
    const KnownFile unknown = {"", 1, std::string(64, '0')};
    checked = check_imdb(data.path(), {unknown, unknown, unknown, unknown});
    States found;
    for (const CheckedFile& file : checked) found.push_back(file.state);
    return found;
  };
  const FileState missing = FileState::missing, incomplete = FileState::incomplete, wrong = FileState::wrong_hash;
  EXPECT_EQ(states(), (States{missing, missing, missing, missing}));
  fs::create_directory(data / "imdb");
  data.put("imdb/aclImdb_train.tar", tar(half_of(reviews(2), "train")));
  EXPECT_EQ(states(), (States{incomplete, missing, wrong, missing}));
  EXPECT_EQ(checked[0].path, data / "imdb/train-reviews");
  EXPECT_EQ(checked[0].what, "holds 4 of the 25000 reviews that are published");
  std::map<std::string, std::string> others;
  for (int64_t i = 0; i < kReviewsPerClass; ++i) {
    others[fmt::format("test/neg/{}_1.txt", i)] = "bad";
    others[fmt::format("test/pos/{}_9.txt", i)] = "good";
  }
  data.put("imdb/aclImdb_test.tar", tar(others));
  EXPECT_EQ(states(), (States{incomplete, wrong, wrong, missing}));
  EXPECT_EQ(checked[1].what, "holds other text than is published");
  data.put("imdb/aclImdb_test.tar", "no archive");
  EXPECT_EQ(states(), States{wrong}) << "one fault is told once";
  EXPECT_TRUE(checked[0].what.starts_with((data / "imdb/aclImdb_test.tar").string())) << checked[0].what;
}

}  // namespace
}  // namespace bochner::text
