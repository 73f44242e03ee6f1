#include "datasets/pairs/aan.h"

#include <gtest/gtest.h>

#include "datasets/loader.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner::pairs {
namespace {

using test::message_of;
using test::TemporaryFolder;

void ignore(const std::string&) {}

/// The published layout: no header, quotes are characters like others, labels are floats.
constexpr const char* kTable =
    "1.0\tP98-1005\tC00-1001\tb'A \"quoted word and no end'\tb'It\\'s the second'\n"
    "0.0\tJ01-1\tP1\t\"\tx \xff\xfe y\n"
    "0.0\tA\tB\t'one'\t\"two\"\n";

TEST(Retrieval, RowsAreReadAsTheyAre) {
  const TemporaryFolder folder;
  const auto pairs = read_aan(folder.put("a.tsv", kTable), "retrieval train", 4000);
  ASSERT_EQ(pairs->size(), 3);
  EXPECT_EQ(pairs->sequences(), 2);
  EXPECT_EQ(pairs->label(0), 1);
  EXPECT_EQ(pairs->label(1), 0);
  EXPECT_EQ(pairs->text(0, 0), "b'A \"quoted word and no end'");
  EXPECT_EQ(pairs->text(0, 1), "b'It\\'s the second'");
  EXPECT_EQ(pairs->text(1, 0), "\"");
  EXPECT_EQ(pairs->text(1, 1), "x \xff\xfe y");
  EXPECT_EQ(pairs->text(2, 1), "\"two\"");
  EXPECT_EQ(read_aan(folder / "a.tsv", "short", 3)->text(1, 1), "x \xff");
  EXPECT_EQ(
      read_aan(folder.put("long.tsv", "1.0\t1\t2\tx\t" + std::string(20000, 'y') + "\n"), "long", 50000)->length(0, 1),
      10000);
}

TEST(Retrieval, RefusesBadRows) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& bytes) {
    folder.put("a.tsv", bytes);
    return message_of([&] { read_aan(folder / "a.tsv", "x", 4000); });
  };
  EXPECT_NE(error("1.0\t1\t2\tx\ty\tz\n").find("a.tsv: row 1 column 6: the row has 6 fields, not 5"),
            std::string::npos);
  EXPECT_NE(error("1.0\t1\t2\tx\ty\n0.0\t1\t2\tx\n").find("a.tsv: row 2 column 4: the row has 4 fields"),
            std::string::npos);
  EXPECT_NE(error("1.0\t1\t2\tx\t\n").find("a.tsv: row 1 column 5: the document is empty"), std::string::npos);
  EXPECT_NE(error("2.0\t1\t2\tx\ty\n").find("row 1 column 1: the label '2.0' is neither 0.0 nor 1.0"),
            std::string::npos);
  EXPECT_NE(error("label\tid1\tid2\ttext1\ttext2\n").find("the label 'label' is neither"), std::string::npos);
  EXPECT_NE(error("").find("holds no pairs"), std::string::npos);
  std::string rows;
  for (int64_t i = 0; i <= kPublishedTrain; ++i) rows += "0.0\t1\t2\tx\ty\n";
  EXPECT_NE(error(rows).find("row 147087 column 1: more rows than the 147086 of the largest table"), std::string::npos);
}

TEST(Retrieval, IsATaskOfPairs) {
  const TemporaryFolder folder;
  folder.put("new_aan_pairs.train.tsv", kTable);
  write_file_atomically(folder / "new_aan_pairs.eval.tsv.gz", format_gzip(bytes_of(kTable)));
  EXPECT_NE(message_of([&] {
              load_aan({.place = {folder.path()}, .partial = true}, ignore);
            }).find("new_aan_pairs.test.tsv: is missing; put storage.googleapis.com"),
            std::string::npos);
  folder.put("new_aan_pairs.test.tsv", kTable);
  const TaskData data = load_aan({.place = {folder.path()}, .max_length = 12, .partial = true}, ignore);
  EXPECT_EQ(data.task.sequences, 2);
  EXPECT_EQ(data.remarks.size(), 3U);
  EXPECT_EQ(data.remarks[0], "train: only 3 of the 147086 published pairs");
  Loader loader(data.valid, {.batch_size = 3, .max_length = 12, .shuffle = false});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.ids.shape(), (Shape{3, 2, 12}));
  EXPECT_EQ(batch.mask.shape(), batch.ids.shape());
  EXPECT_NE(message_of([&] {
              load_aan({.place = {folder.path()}}, ignore);
            }).find("row 3: the file ends here: 3 of the 147086 published pairs"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner::pairs
