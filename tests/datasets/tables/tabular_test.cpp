#include "datasets/tables/tabular.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "datasets/tables/header.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/random.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/shared_data.h"

namespace bochner {
namespace {

using test::message_of;

class Tabular : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(Tabular, ReadsNumbersAndClasses) {
  const auto path = folder_.put("a.csv", "x,kind,y\r\n1,b,2.5\r\n-3,a,4e1\r\n5,b,6\r\n\r\n");
  const NumericTable table = read_table(path, {.header = true, .label = "kind"});
  EXPECT_EQ(table.features.to_vector<float>(), (std::vector<float>{1, 2.5, -3, 40, 5, 6}));
  EXPECT_EQ(table.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(table.from_cache);
}

TEST_F(Tabular, NumbersAsClassesAreOrderedByValueHoweverWritten) {
  const auto path = folder_.put("a.csv", "10,1\n2.0,1\n1e1,3\n2,4\n");
  const NumericTable table = read_table(path, {.label = "0"});
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(table.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1, 0}));
}

TEST_F(Tabular, SecondReadComesFromTheCacheUntilTheFileOrTheCacheChanges) {
  const auto path = folder_.put("a.csv", "1,0\n2,1\n");
  const NumericTable first = read_table(path);
  const NumericTable second = read_table(path);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.features.to_vector<float>(), first.features.to_vector<float>());
  EXPECT_EQ(second.labels.to_vector<int64_t>(), first.labels.to_vector<int64_t>());
  EXPECT_EQ(second.class_names, first.class_names);
  EXPECT_FALSE(read_table(path, {.label = "0"}).from_cache);  // read with other options
  read_table(path);
  folder_.put("a.csv", "1,0\n2,1\n7,1\n");
  EXPECT_FALSE(read_table(path).from_cache);
  EXPECT_TRUE(read_table(path).from_cache);
  // a damaged byte is noticed
  const std::filesystem::path cache = path.string() + ".bochner-cache";
  std::vector<std::byte> bytes = read_file(cache);
  bytes.back() ^= std::byte{1};
  write_file_atomically(cache, bytes);
  std::string said;
  const NumericTable again = read_table(path, {}, [&](const std::string& line) { said += line; });
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.rows(), 3);
  EXPECT_NE(said.find("a.csv.bochner-cache"), std::string::npos);
}

TEST_F(Tabular, AFileThatGrowsWhileItIsReadGetsNoCache) {
  const auto path = folder_.put("a.csv", "1,0\n2,1\n");
  const std::filesystem::path cache = folder_.put("a.csv.bochner-cache", "damaged");
  const NumericTable table = read_table(path, {}, [&](const std::string& line) {
    if (line.find("reading the text again") != std::string::npos) folder_.put("a.csv", "1,0\n2,1\n3,1\n");
  });
  EXPECT_EQ(table.rows(), 3);
  EXPECT_EQ(std::filesystem::file_size(cache), 7U);
  EXPECT_FALSE(read_table(path).from_cache);
  EXPECT_TRUE(read_table(path).from_cache);
}

TEST_F(Tabular, TheCacheDoesNotFollowALink) {
  const auto path = folder_.put("a.csv", "1,0\n2,1\n");
  const auto victim = folder_.put("victim", "precious");
  std::filesystem::create_symlink("victim", folder_ / "a.csv.bochner-cache");
  read_table(path);
  EXPECT_EQ(text_of(read_file(victim)), "precious");
  EXPECT_TRUE(read_table(path).from_cache);
}

TEST_F(Tabular, RefusesWithFileRowAndColumn) {
  const TableFormat csv{.header = true, .label = "y"};
  const auto expect = [&](const std::string& text, const TableFormat& format, const std::string& part) {
    const auto path = folder_.put("bad.csv", text);
    const std::string what = message_of([&] { read_table(path, format); });
    EXPECT_NE(what.find("bad.csv"), std::string::npos) << what;
    EXPECT_NE(what.find(part), std::string::npos) << what;
    EXPECT_FALSE(std::filesystem::exists(path.string() + ".bochner-cache"));
  };
  expect("x,y\n1,0\n2,1,5\n", csv, "row 3 column 3");
  expect("x,y\n1,0\ntwo,1\n", csv, "row 3 column 1");
  expect("x,y\n1,0\nnan,1\n", csv, "row 3 column 1");
  expect("x,y\n1,0\ninf,1\n", csv, "row 3 column 1");
  expect("x,y\n1,0\n1e39,1\n", csv, "row 3 column 1 ('x'): '1e39' is no finite number of f32");
  expect("x,y\n1,0\n3,\n", csv, "row 3 column 2");
  expect("x,z\n1,0\n", csv, "no column is named");
  expect("1,0\n2,nan\n", {}, "row 2 column 2: the label 'nan' names no class");
  expect("a,0\nb,NaN\n", {.words = true}, "row 2 column 2: the label 'NaN' names no class");
  expect("1,0\n", {.label = "b", .names = {"a", "c", "b"}}, "'b' is column 3 for the label, but the row has 2 fields");
  expect("1,0\n", {.label = "y"}, "has no header");
  expect("1,0\n", {.label = "2"}, "there is no column 2");
  expect("", csv, "the file is empty");
  expect("x,y\n", csv, "only the names of the columns");
  expect("1\n2\n", {}, "no column but the label");
  expect(
      "Gr\xf6\xdf"
      "e,y\n1,0\n2,1\n",
      csv, "is not UTF-8; convert the file, such as from Latin-1: iconv");
  expect("x,y\n1,gr\xfcn\n2,rot\n", csv, "column 2: ");
  expect("x,y\nK\xf6ln,0\nBonn,1\n", {.header = true, .label = "y", .words = true}, "column 'x': ");
  expect("1,5\n2,5\n", {}, "all rows are of class '5'");
  const std::string rows = "1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n7,0\n";
  std::vector<std::byte> packed = format_gzip(bytes_of(rows));
  packed.resize(packed.size() - 6);
  const auto cut = folder_ / "cut.csv.gz";
  write_file_atomically(cut, packed);
  EXPECT_NE(message_of([&] { read_table(cut); }).find("cut.csv.gz"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(cut.string() + ".bochner-cache"));
}

TEST_F(Tabular, CategoriesAreOrderedByValueOnlyIfEachHasOne) {
  const TableFormat format{.label = "1", .words = true, .categories = {"0"}};
  const auto categories = [&](const std::string& text) {
    return read_table(folder_.put("a.csv", text), format).categories[0];
  };
  EXPECT_EQ(categories("9,a\n10,b\n"), (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(categories("9,a\nnan,b\n10,b\n"), (std::vector<std::string>{"10", "9", "nan"}));
}

TEST_F(Tabular, WordsAndGapsBecomeColumns) {
  // 6 rows for training, 1 for validation, 3 for testing
  const std::string text =
      "age,job,code,class\n"
      "10,b,7,no\n?,a,7,yes\n30,,9,no\n20, b ,9,yes\n20,b,9,no\n20,a,7,yes\n"
      "40,c,7,no\n,NA,7,yes\n20,a,8,no\n0,d,9,yes\n";
  const auto path = folder_.put("a.csv", text);
  const TableFormat format{.header = true, .label = "class", .words = true, .categories = {"code"}};
  const NumericTable table = read_table(path, format);
  EXPECT_EQ(table.columns, (std::vector<std::string>{"age", "job", "code"}));
  EXPECT_EQ(table.categories, (std::vector<std::vector<std::string>>{{}, {"a", "b", "c", "d"}, {"7", "8", "9"}}));
  EXPECT_TRUE(table.has_gaps);
  const TableSplits splits = split_in_order(read_table(path, format), 6, 1, "test");
  EXPECT_EQ(splits.columns, (std::vector<std::string>{"age", "age is missing", "job=a", "job=b", "job is missing",
                                                      "code=7", "code=9"}));
  EXPECT_EQ(splits.mean, (std::vector<float>{20, 0, 0, 0, 0, 0, 0}));  // of the five ages that are present
  const float scale = std::sqrt(200.F / 6);                            // so the sixth is 20
  EXPECT_FLOAT_EQ(splits.scale[0], scale);
  EXPECT_EQ(splits.scale[1], 1);
  const auto near = [](const TableSplit& split, const std::vector<float>& expected) {
    const std::vector<float> values = split.features.to_vector<float>();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(values[i], expected[i]) << i;
  };
  const float ten = 10 / scale;
  near(splits.train, {-ten, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, ten, 0, 0, 0, 1, 0, 1,
                      0,    0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0,   0, 1, 0, 0, 1, 0});
  near(splits.valid, {2 * ten, 0, 0, 0, 0, 1, 0});                                            // job c is unknown
  near(splits.test, {0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, -2 * ten, 0, 0, 0, 0, 0, 1});  // code 8, job d are
  const std::string notes = std::accumulate(splits.notes.begin(), splits.notes.end(), std::string());
  EXPECT_NE(notes.find("'age' is missing in 1 of 6 training rows: it becomes their mean 20"), std::string::npos)
      << notes;
  EXPECT_NE(notes.find("'job' is missing in 1 of 6 training rows, which is a category of its own"), std::string::npos);
  EXPECT_NE(notes.find("2 of 3 columns hold categories"), std::string::npos);
  EXPECT_NE(notes.find("1 of 3 test rows hold a category of 'job' that no training row has"), std::string::npos);
  EXPECT_NE(notes.find("1 of 3 test rows hold a category of 'code'"), std::string::npos) << notes;
  EXPECT_NE(notes.find("1 of 1 validation rows hold a category of 'job'"), std::string::npos);
}

TEST_F(Tabular, WordsAmongNumbersAreRefusedUnlessNamed) {
  const auto path = folder_.put("a.csv", "x,id,y\n1,5,0\ntwo,6,1\n3,7,0\n");
  TableFormat format{.header = true, .label = "y", .words = true};
  const std::string what = message_of([&] { read_table(path, format); });
  EXPECT_NE(what.find("a.csv: row 3 column 1 ('x'): 'two' is not a number, as other fields of the column are"),
            std::string::npos)
      << what;
  EXPECT_TRUE(what.ends_with("correct it")) << "nobody can set options: " << what;
  format.options = "--csv.";
  const std::string advised = message_of([&] { read_table(path, format); });
  EXPECT_NE(advised.find("(--csv.missing=two), or that the column holds categories (--csv.categories=0)"),
            std::string::npos)
      << advised;
  const auto other = folder_.put("b.csv", "x,id,y\n1,5,0\nt\x1bo,6,1\n3,7,0\n");
  const std::string about = message_of([&] { read_table(other, format); });
  EXPECT_NE(about.find("'t\\x1bo' is not a number"), std::string::npos) << about;
  EXPECT_EQ(about.find("missing="), std::string::npos) << about;
  EXPECT_NE(about.find("(--csv.categories=0)"), std::string::npos) << about;
  format.missing = {"two"};
  EXPECT_TRUE(std::isnan(read_table(path, format).features.to_vector<float>()[2]));
  format.missing.clear();
  format.categories = {"0"};
  EXPECT_EQ(read_table(path, format).categories[0], (std::vector<std::string>{"1", "3", "two"}));
  format.leave_out = {"x", "-2"};
  EXPECT_NE(message_of([&] { read_table(path, format); }).find("no column but the label"), std::string::npos);
  format.leave_out = {"x"};
  EXPECT_EQ(read_table(path, format).columns, (std::vector<std::string>{"id"}));
  format.leave_out = {"y"};
  EXPECT_NE(message_of([&] { read_table(path, format); }).find("the label cannot be left out"), std::string::npos);
  std::string words = "w,y\n";
  for (int i = 0; i < 1001; ++i) words += fmt::format("w{},{}\n", i, i % 2);
  const std::string many =
      message_of([&] { read_table(folder_.put("b.csv", words), {.header = true, .label = "y", .words = true}); });
  EXPECT_NE(many.find("b.csv: row 1002 column 1 ('w'): more than 1000 different words"), std::string::npos) << many;
  EXPECT_TRUE(std::isnan(read_table(folder_.put("d.csv", "-9,a\n2,b\n"), {.words = true, .missing = {"-9"}})
                             .features.to_vector<float>()[0]));
  const std::string gap = message_of([&] { read_table(folder_.put("c.csv", "1,a\n2,?\n3,b\n"), {.words = true}); });
  EXPECT_NE(gap.find("c.csv: row 2 column 2: the label is missing"), std::string::npos) << gap;
}

TEST_F(Tabular, MeasurementsAreNoClasses) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += fmt::format("{},{}.5\n", i, i);
  const std::string what = message_of([&] { read_table(folder_.put("price.csv", text)); });
  EXPECT_NE(what.find("price.csv: column 2 holds 150 different numbers in 150 rows, such as 0.5"), std::string::npos)
      << what;
}

TEST_F(Tabular, NamesOfColumnsAreToldFromData) {
  const auto is_names = [&](const std::string& text, char separator = ',') {
    return judge_first_row(folder_.put("a.csv", text), separator).is_names;
  };
  EXPECT_TRUE(is_names("x,y,class\n1,2,a\n3,4,b\n"));
  EXPECT_FALSE(is_names("1,2,a\n3,4,b\n"));
  EXPECT_FALSE(is_names("1,2,0\n3,4,1\n"));
  EXPECT_TRUE(is_names("x;class\n1;0\n3;1\n", ';'));
  EXPECT_TRUE(is_names("age,work,class\n?,Private,a\n17,State,b\n"));  // missing values do not vote
  EXPECT_FALSE(is_names("?,Private,a\n17,State,b\n"));
  EXPECT_FALSE(is_names("two,3,5,a\n3,4,5,b\n6,7,8,a\n"));                  // one slip among numbers
  EXPECT_TRUE(is_names("odor,shape,class\nsweet,round,e\nfoul,flat,p\n"));  // only words: none occurs again
  EXPECT_FALSE(is_names("sweet,round,e\nsweet,flat,p\n"));
  EXPECT_TRUE(is_names("x,class\n"));
  EXPECT_FALSE(is_names(""));
  EXPECT_EQ(judge_first_row(folder_.put("a.csv", "x, y\n1,2\n")).fields, (std::vector<std::string>{"x", "y"}));
}

TEST_F(Tabular, SplitsInOrderAndStandardisesByTrainingRowsAlone) {
  const auto path = folder_.put("a.csv", "1,7,0\n3,7,1\n100,9,0\n-50,8,1\n8,7,0\n");
  const TableSplits splits = split_in_order(read_table(path), 2, 1, "test");
  EXPECT_EQ(splits.mean, (std::vector<float>{2, 7}));
  EXPECT_EQ(splits.scale, (std::vector<float>{1, 1}));  // the second column is constant in training
  EXPECT_EQ(splits.train.features.to_vector<float>(), (std::vector<float>{-1, 0, 1, 0}));
  EXPECT_EQ(splits.valid.features.to_vector<float>(), (std::vector<float>{98, 2}));
  EXPECT_EQ(splits.test.rows(), 2);
  EXPECT_THROW(split_in_order(read_table(path), 4, 1, "test"), Error);
}

TEST_F(Tabular, AClassThatTrainingHasNotSeenIsNamedWithItsRow) {
  const auto path = folder_.put("a.csv", "1,0\n3,1\n100,0\n-50,4\n");
  const std::string what = message_of([&] { split_in_order(read_table(path), 2, 1, "test"); });
  EXPECT_NE(what.find("a.csv: row 4 column 2: class '4' of the test split"), std::string::npos) << what;
  const auto train = folder_.put("b.csv", "1,0\n3,1\n2,0\n4,1\n");
  EXPECT_NE(message_of([&] {
              split_of_files(read_table(train), 1, read_table(path), "");
            }).find("a.csv: row 4 column 2: class '4'"),
            std::string::npos);
  const TableSplits good =
      split_of_files(read_table(train), 1, read_table(folder_.put("c.csv", "9,1\n8,1\n7,0\n")), "");
  EXPECT_EQ(good.test.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 0}));
}

TEST_F(Tabular, OfShuffledRowsTheErrorNamesTheRowOfTheFile) {
  std::string text = "kind,x,y\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{},{}\n", i == 16 ? "rare" : i % 2 == 0 ? "a" : "b", i, -i);
  const auto path = folder_.put("shuffled.csv", text);
  const TableFormat format{.header = true, .label = "kind"};
  int refused = 0;
  for (int again = 0; again < 2; ++again) {  // from the text, then from the cache
    const NumericTable table = read_table(path, format);
    EXPECT_EQ(table.from_cache, again == 1);
    EXPECT_EQ(table.label_column, 0);
    const std::vector<float> before = table.features.to_vector<float>();
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const std::string what = message_of([&] { split_at_random(table, 0.2, 0.2, seed); });
      if (what == "no error") continue;  // the only one of its class was drawn for training
      ++refused;
      EXPECT_NE(what.find("shuffled.csv: row 18 column 1: class 'rare'"), std::string::npos) << what;
    }
    EXPECT_EQ(table.features.to_vector<float>(), before);  // a random split takes a copy
  }
  EXPECT_GE(refused, 2);
  EXPECT_EQ(read_table(folder_.put("last.csv", "1,0\n2,1\n")).label_column, 1);
}

TEST_F(Tabular, LoaderTakesEveryRowOnceAndCanGoOn) {
  std::string text;
  for (int i = 0; i < 25; ++i) text += fmt::format("{},{}\n", i, i % 2);
  const TableSplits splits = split_at_random(read_table(folder_.put("a.csv", text)), 0.08, 0.08, 3);
  ASSERT_EQ(splits.train.rows(), 21);
  TableLoader loader(splits.train, 4, 5);
  EXPECT_EQ(loader.steps_per_epoch(), 5);
  std::set<int64_t> seen;
  for (int i = 0; i < 3; ++i) loader.next();
  TableLoader other(splits.train, 4, 5);
  other.go_to(3);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(loader.next().rows, other.next().rows);
  TableLoader fresh(splits.train, 4, 5);
  for (int i = 0; i < 5; ++i) {
    const TableBatch batch = fresh.next();
    for (size_t k = 0; k < batch.rows.size(); ++k) {
      EXPECT_TRUE(seen.insert(batch.rows[k]).second);
      EXPECT_EQ(batch.x.to_vector<float>()[k],
                splits.train.features.to_vector<float>()[static_cast<size_t>(batch.rows[k])]);
    }
  }
  TableLoader in_order(splits.train, 4, 0, false);
  EXPECT_EQ(in_order.steps_per_epoch(), 6);
  EXPECT_EQ(in_order.next().rows, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(Tabular, RowsComeInAnotherOrderInEachEpoch) {
  Generator generator(1);
  const TableSplit split{normal({12, 1}, generator), Tensor::zeros({12}, DType::i64)};
  TableLoader loader(split, 12, 5);
  const std::vector<int64_t> first = loader.next().rows;
  EXPECT_NE(loader.next().rows, first);
}

}  // namespace
}  // namespace bochner
