#include "engine/io/rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/io/csv.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

struct Read {
  bool plain = false;
  PlainRowsResult rows;
  std::vector<float> values;
  std::vector<std::string> labels;
};

Read read(const std::string& text, const PlainRowsOptions& options = {}) {
  MemorySource source(bytes_of(text), "text");
  Read result;
  result.plain = read_plain_rows(source, options, result.rows);
  if (!result.plain) return result;
  for (const RowPiece& piece : result.rows.pieces) {
    result.values.insert(result.values.end(), piece.values.begin(), piece.values.end());
    for (const int64_t label : piece.labels) result.labels.push_back(result.rows.classes[static_cast<size_t>(label)]);
  }
  return result;
}

TEST(PlainRows, ReadsNumbersAndWords) {
  const Read found = read("1, -2.5,cat\r\n\r\n+3e2,.5,dog\n0.1,1E-3, cat ");
  ASSERT_TRUE(found.plain);
  EXPECT_EQ(found.values, (std::vector<float>{1, -2.5, 300, 0.5, 0.1F, 1e-3F}));
  EXPECT_EQ(found.labels, (std::vector<std::string>{"cat", "dog", "cat"}));
  EXPECT_EQ(found.rows.columns, 2);
  const Read header = read("\xef\xbb\xbf\"a,\"\"b\",y\n7,1\n", {.label = 1, .header = true, .fields = 2});
  ASSERT_TRUE(header.plain);
  EXPECT_EQ(header.values, (std::vector<float>{7}));
  EXPECT_EQ(read("2\t1\n3\t4", {.separator = '\t', .label = 0}).labels, (std::vector<std::string>{"2", "3"}));
}

TEST(PlainRows, LeavesAllElseToCsvReader) {
  for (const std::string text :
       {"1,2,a\n1,a\n", "1,2,a\n1,2,3,a\n", "x,a\n",     "nan,a\n", "inf,a\n",        "1e999,a\n", "1e39,a\n",
        "-4e38,a\n",    "999e37,a\n",       ",a\n",      "1,\n",    "\"1\",a\n",      "0x1,a\n",   "1e,a\n",
        "--1,a\n",      "+-1,a\n",          "1.2.3,a\n", "1 2,a\n", "1,a\n\"2\",b\n", "1,a,\n",    "\r\r\n1,a\n"}) {
    EXPECT_FALSE(read(text).plain) << text;
  }
  EXPECT_FALSE(read(std::string("1,a\0\n", 5)).plain);
  EXPECT_FALSE(read("1,a\n", {.label = 2}).plain);
  EXPECT_FALSE(read("1,a\n", {.fields = 3}).plain);
  EXPECT_FALSE(read("\"a\nb\",c\n1,a\n", {.header = true}).plain);
  EXPECT_FALSE(read("1,a\n2,b\n3,c\n", {.max_classes = 2}).plain);
  EXPECT_FALSE(read("1e2\n", {.separator = 'e'}).plain);
  const Read none = read("\n\r\n\r");
  EXPECT_TRUE(none.plain);
  EXPECT_EQ(none.rows.rows, 0);
  EXPECT_EQ(read("\n\r\r").labels, (std::vector<std::string>{"\r"}));  // a line of one return is not empty
}

/// Numbers of every form, compared as bits, over many pieces and blocks, with any number of threads.
TEST(PlainRows, GivesTheBitsOfCsvReader) {
  Generator generator(1);
  std::string text;
  for (int i = 0; i < 60000; ++i) {
    const double x = (generator.uniform() - 0.5) * std::pow(10.0, static_cast<double>(i % 40) - 20);
    text += fmt::format("{},{:.3f},{:.18e},{:g},{},{}\n", x, x, x, x, i - 30000, i % 7);
  }
  ASSERT_GT(text.size(), size_t{4} << 20);
  std::vector<float> expected;
  CsvReader reader(bytes_of(text), "text");
  while (reader.next()) {
    for (int column = 0; column < 5; ++column) expected.push_back(static_cast<float>(reader.number(column)));
  }
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    const Read found = read(text);
    ASSERT_TRUE(found.plain);
    EXPECT_TRUE(found.values == expected);
    EXPECT_EQ(found.rows.rows, 60000);
    EXPECT_EQ(found.labels[12], "5");
  }
  set_threads(before);
}

/// Strings of 1 to 25 digits with a point and an exponent anywhere: all ways of reading a number, and the lengths at
/// which they switch.
TEST(PlainRows, RoundsDigitsOfEveryLengthAsCsvReaderDoes) {
  Generator generator(2);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(generator.uniform() * static_cast<double>(n)); };
  std::string text;
  for (int i = 0; i < 50000; ++i) {
    std::string digits;
    for (int64_t count = 1 + below(25); count > 0; --count) digits += static_cast<char>('0' + below(10));
    if (below(4) != 0) digits.insert(static_cast<size_t>(below(static_cast<int64_t>(digits.size()) + 1)), 1, '.');
    if (below(2) != 0) digits += fmt::format("e{}", below(59) - 45);
    text += fmt::format("{}{}{},{}\r\n", below(3) == 0 ? " " : "", below(2) == 0 ? "-" : "", digits, i % 3);
  }
  const Read found = read(text);
  ASSERT_TRUE(found.plain);
  CsvReader reader(bytes_of(text), "text");
  for (size_t row = 0; reader.next(); ++row) {
    ASSERT_EQ(found.values[row], static_cast<float>(reader.number(0))) << reader[0];
  }
  EXPECT_EQ(found.rows.rows, 50000);
}

/// Ties between neighbouring f64, which the first 64 bits cannot decide.
TEST(PlainRows, RoundsTiesToEven) {
  for (const std::string text : {"9007199254740993", "9007199254740995", "0.5000000000000000277",
                                 "1.00000000000000011e0", "9.007199254740993e-7", "4503599627370497.5"}) {
    const std::string row = text + ",a\n";
    CsvReader reader(bytes_of(row), "text");
    reader.next();
    EXPECT_EQ(read(row).values, std::vector<float>{static_cast<float>(reader.number(0))}) << text;
  }
}

/// A long first line does not make the many short ones after it claim memory.
TEST(PlainRows, ShortLinesBehindALongOneAreLeftToCsvReader) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "1,";
  text += "a\n";
  for (int i = 0; i < 100000; ++i) text += "1\n";
  EXPECT_FALSE(read(text).plain);
}

TEST(PlainRows, RowsAcrossBlocksAreWhole) {
  std::string text;
  int64_t rows = 0;
  for (; text.size() < (size_t{1} << 20); ++rows) text += fmt::format("{},{},{}\n", rows, rows * 3, rows % 5);
  EXPECT_FALSE(read(text, {.block = 10}).plain);  // a row is longer
  const Read found = read(text, {.block = 1000});
  ASSERT_TRUE(found.plain);
  ASSERT_EQ(found.rows.rows, rows);
  for (int64_t i = 0; i < rows; ++i) {
    ASSERT_EQ(found.values[static_cast<size_t>(2 * i)], static_cast<float>(i));
    ASSERT_EQ(found.values[static_cast<size_t>(2 * i + 1)], static_cast<float>(3 * i));
  }
}

}  // namespace
}  // namespace bochner
