#include "datasets/tables/tabular.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "datasets/tables/header.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "tests/datasets/testing.h"

namespace bochner {
namespace {

class Tabular : public testing::Test {
 protected:
  Tabular() {
    std::string name = (std::filesystem::temp_directory_path() / "bochner-table-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~Tabular() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static std::string refusal(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  std::filesystem::path folder_;
};

TEST_F(Tabular, ReadsNumbersAndClasses) {
  const auto path = put("a.csv", "x,kind,y\r\n1,b,2.5\r\n-3,a,4e1\r\n5,b,6\r\n\r\n");
  const NumericTable table = read_table(path, {.header = true, .label = "kind"});
  EXPECT_EQ(table.features.to_vector<float>(), (std::vector<float>{1, 2.5, -3, 40, 5, 6}));
  EXPECT_EQ(table.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(table.from_cache);
}

TEST_F(Tabular, NumbersAsClassesAreOrderedByValueHoweverWritten) {
  const auto path = put("a.csv", "10,1\n2.0,1\n1e1,3\n2,4\n");
  const NumericTable table = read_table(path, {.label = "0"});
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(table.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1, 0}));
}

TEST_F(Tabular, SecondReadComesFromTheCacheUntilTheFileOrTheCacheChanges) {
  const auto path = put("a.csv", "1,0\n2,1\n");
  const NumericTable first = read_table(path);
  const NumericTable second = read_table(path);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.features.to_vector<float>(), first.features.to_vector<float>());
  EXPECT_EQ(second.labels.to_vector<int64_t>(), first.labels.to_vector<int64_t>());
  EXPECT_EQ(second.class_names, first.class_names);
  EXPECT_FALSE(read_table(path, {.label = "0"}).from_cache);  // read in another way
  read_table(path);
  put("a.csv", "1,0\n2,1\n7,1\n");
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

TEST_F(Tabular, RefusesWithFileRowAndColumn) {
  const TableFormat csv{.header = true, .label = "y"};
  const auto expect = [&](const std::string& text, const TableFormat& format, const std::string& part) {
    const auto path = put("bad.csv", text);
    const std::string what = refusal([&] { read_table(path, format); });
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
  expect("1,0\n", {.label = "y"}, "has no header");
  expect("1,0\n", {.label = "2"}, "there is no column 2");
  expect("", csv, "empty");
  expect("x,y\n", csv, "empty");
  expect("1\n2\n", {}, "no column but the label");
  expect("1,5\n2,5\n", {}, "all rows are of class '5'");
  const std::string rows = "1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n7,0\n";
  std::vector<std::byte> packed = format_gzip(bytes_of(rows));
  packed.resize(packed.size() - 6);
  const auto cut = folder_ / "cut.csv.gz";
  write_file_atomically(cut, packed);
  EXPECT_NE(refusal([&] { read_table(cut); }).find("cut.csv.gz"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(cut.string() + ".bochner-cache"));
}

TEST_F(Tabular, MeasurementsAreNoClasses) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += fmt::format("{},{}.5\n", i, i);
  const std::string what = refusal([&] { read_table(put("price.csv", text)); });
  EXPECT_NE(what.find("price.csv: column 2 holds 150 different numbers in 150 rows, such as 0.5"), std::string::npos)
      << what;
}

TEST_F(Tabular, NamesOfColumnsAreToldFromData) {
  const auto is_names = [&](const std::string& text, char separator = ',') {
    return judge_first_row(put("a.csv", text), separator).is_names;
  };
  EXPECT_TRUE(is_names("x,y,class\n1,2,a\n3,4,b\n"));
  EXPECT_FALSE(is_names("1,2,a\n3,4,b\n"));
  EXPECT_FALSE(is_names("1,2,0\n3,4,1\n"));
  EXPECT_TRUE(is_names("x;class\n1;0\n3;1\n", ';'));
  EXPECT_TRUE(is_names("age,work,class\n?,Private,a\n17,State,b\n"));  // missing values do not vote
  EXPECT_FALSE(is_names("?,Private,a\n17,State,b\n"));
  EXPECT_FALSE(is_names("two,3,5,a\n3,4,5,b\n6,7,8,a\n"));                  // one slip among numbers
  EXPECT_TRUE(is_names("odor,shape,class\nsweet,round,e\nfoul,flat,p\n"));  // words alone: none comes again
  EXPECT_FALSE(is_names("sweet,round,e\nsweet,flat,p\n"));
  EXPECT_TRUE(is_names("x,class\n"));
  EXPECT_FALSE(is_names(""));
  EXPECT_EQ(judge_first_row(put("a.csv", "x, y\n1,2\n")).fields, (std::vector<std::string>{"x", "y"}));
}

TEST_F(Tabular, SplitsInOrderAndStandardisesByTrainingRowsAlone) {
  const auto path = put("a.csv", "1,7,0\n3,7,1\n100,9,0\n-50,8,1\n8,7,0\n");
  const TableSplits splits = split_in_order(read_table(path), 2, 1, "test");
  EXPECT_EQ(splits.mean, (std::vector<float>{2, 7}));
  EXPECT_EQ(splits.scale, (std::vector<float>{1, 1}));  // the second column is constant in training
  EXPECT_EQ(splits.train.features.to_vector<float>(), (std::vector<float>{-1, 0, 1, 0}));
  EXPECT_EQ(splits.valid.features.to_vector<float>(), (std::vector<float>{98, 2}));
  EXPECT_EQ(splits.test.rows(), 2);
  EXPECT_THROW(split_in_order(read_table(path), 4, 1, "test"), Error);
}

TEST_F(Tabular, AClassThatTrainingHasNotSeenIsNamedWithItsRow) {
  const auto path = put("a.csv", "1,0\n3,1\n100,0\n-50,4\n");
  const std::string what = refusal([&] { split_in_order(read_table(path), 2, 1, "test"); });
  EXPECT_NE(what.find("a.csv: row 4 column 2: class '4' of the test split"), std::string::npos) << what;
  const auto train = put("b.csv", "1,0\n3,1\n2,0\n4,1\n");
  EXPECT_NE(refusal([&] {
              split_of_files(read_table(train), 1, read_table(path), "");
            }).find("a.csv: row 4 column 2: class '4'"),
            std::string::npos);
  const TableSplits good = split_of_files(read_table(train), 1, read_table(put("c.csv", "9,1\n8,1\n7,0\n")), "");
  EXPECT_EQ(good.test.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 0}));
}

TEST_F(Tabular, OfShuffledRowsTheErrorNamesTheRowOfTheFile) {
  std::string text = "kind,x,y\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{},{}\n", i == 16 ? "rare" : i % 2 == 0 ? "a" : "b", i, -i);
  const auto path = put("shuffled.csv", text);
  const TableFormat format{.header = true, .label = "kind"};
  int refused = 0;
  for (int again = 0; again < 2; ++again) {  // from the text, then from the cache
    const NumericTable table = read_table(path, format);
    EXPECT_EQ(table.from_cache, again == 1);
    EXPECT_EQ(table.label_column, 0);
    const std::vector<float> before = table.features.to_vector<float>();
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const std::string what = refusal([&] { split_at_random(table, 0.2, 0.2, seed); });
      if (what == "nothing was refused") continue;  // the one of its class was drawn for training
      ++refused;
      EXPECT_NE(what.find("shuffled.csv: row 18 column 1: class 'rare'"), std::string::npos) << what;
    }
    EXPECT_EQ(table.features.to_vector<float>(), before);  // a split at random takes a copy
  }
  EXPECT_GE(refused, 2);
  EXPECT_EQ(read_table(put("last.csv", "1,0\n2,1\n")).label_column, 1);
}

TEST_F(Tabular, LoaderTakesEveryRowOnceAndCanGoOn) {
  std::string text;
  for (int i = 0; i < 25; ++i) text += fmt::format("{},{}\n", i, i % 2);
  const TableSplits splits = split_at_random(read_table(put("a.csv", text)), 0.08, 0.08, 3);
  ASSERT_EQ(splits.train.rows(), 21);
  TableLoader loader(splits.train, 4, 5);
  EXPECT_EQ(loader.steps_per_epoch(), 5);
  std::set<int64_t> seen;
  for (int i = 0; i < 3; ++i) loader.next();
  TableLoader other(splits.train, 4, 5);
  other.restore(loader.position());
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
  EXPECT_THROW(loader.restore({0, 5}), Error);
}

TEST_F(Tabular, HepmassIsTwoFilesWithTheLabelFirst) {
  std::string train = "# label,f0,f1\n";
  for (int i = 0; i < 40; ++i) train += fmt::format("{:.18e},{:.18e},{:.18e}\n", i % 2 * 1.0, i * 0.25, -1.0 / (i + 1));
  const TableSplits splits =
      uci::hepmass(put("all_train.csv", train), put("all_test.csv", "# label,f0,f1\n1.0,1,2\n0.0,3,4\n1.0,5,6\n"));
  EXPECT_EQ(splits.train.features.shape(), (Shape{36, 2}));
  EXPECT_EQ(splits.valid.rows(), 4);
  EXPECT_EQ(splits.test.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(splits.classes, 2);
  const double mean = 17.5 * 0.25;
  EXPECT_NEAR(splits.test.features.data<float>()[0] * splits.scale[0] + mean, 1, 1e-5);
}

TEST(Uci, HiggsAsItIs) {
  const std::filesystem::path file = testing_::shared_data("uci/HIGGS.part7000.csv.gz");
  if (file.empty()) GTEST_SKIP() << "HIGGS.part7000.csv.gz is not there";
  const NumericTable table = read_table(file, {.label = "0", .cache = false});
  EXPECT_EQ(table.features.shape(), (Shape{7000, 28}));
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"0", "1"}));
}

TEST(Uci, CovertypeAsItIs) {
  const std::filesystem::path file = testing_::shared_data("uci/covtype.first20000.data.gz");
  if (file.empty()) GTEST_SKIP() << "covtype.first20000.data.gz is not there";
  NumericTable table = read_table(file, {.cache = false});
  EXPECT_EQ(table.features.shape(), (Shape{20000, 54}));
  EXPECT_EQ(table.class_names, (std::vector<std::string>{"1", "2", "3", "4", "5", "6", "7"}));
  const TableSplits splits = split_in_order(std::move(table), 11340, 3780, "");
  std::vector<int64_t> counts(7);
  for (const int64_t label : splits.train.labels.to_vector<int64_t>()) ++counts[static_cast<size_t>(label)];
  EXPECT_EQ(counts, std::vector<int64_t>(7, 1620));  // the official training rows: 1,620 of each class
}

}  // namespace
}  // namespace bochner
