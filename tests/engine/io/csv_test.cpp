#include "engine/io/csv.h"

#include <cmath>

#include "engine/io/gzip.h"
#include "tests/engine/io/io_test.h"
#include "tests/shared_data.h"

namespace bochner {
namespace {

using test::BadFile;
using test::expect_refused;
using test::largest_allocation;
using test::message_of;
using test::shared_data;
using test::TemporaryFolder;
using test::text;
using Table = std::vector<std::vector<std::string>>;

Table rows_of(CsvReader&& reader) {
  Table rows;
  while (reader.next()) {
    rows.emplace_back();
    for (int i = 0; i < reader.size(); ++i) rows.back().emplace_back(reader[i]);
  }
  return rows;
}

Table rows_of(const std::string& text, CsvOptions options = {}) {
  return rows_of(CsvReader(bytes_of(text), "t.csv", options));
}

TEST(Csv, ReadsPlainAndQuotedFields) {
  EXPECT_EQ(rows_of("a,b\n1,\n,2\n"), (Table{{"a", "b"}, {"1", ""}, {"", "2"}}));
  EXPECT_EQ(rows_of("\"a,b\",\"c\nd\",\"e\"\"f\"\n\"\",x,\"\"\"\"\n"),
            (Table{{"a,b", "c\nd", "e\"f"}, {"", "x", "\""}}));
  EXPECT_EQ(rows_of(" a , \tb\n"), (Table{{" a ", " \tb"}}));
}

TEST(Csv, LineEndsAreLfOrCrlfAndTheLastMayBeMissing) {
  EXPECT_EQ(rows_of("a,b\r\nc,d\r\n"), (Table{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(rows_of("a,b\nc,d"), (Table{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(rows_of("a\rb\r\r\n"), (Table{{"a\rb\r"}}));
  EXPECT_EQ(rows_of("\"a\r\nb\"\r\n"), (Table{{"a\r\nb"}}));
  EXPECT_EQ(rows_of("a\n\nb\n"), (Table{{"a"}, {""}, {"b"}}));
  EXPECT_EQ(rows_of("a,b\n\r\n\n", {.skip_empty_lines = true}), (Table{{"a", "b"}}));
  EXPECT_EQ(rows_of(""), Table{});
  EXPECT_EQ(rows_of("\n"), Table{{""}});
}

TEST(Csv, TabSeparatedTextTakesQuotesAsTheyAre) {
  EXPECT_EQ(rows_of("\"a\t\"\"b\"\n'\tc\"d\n", CsvOptions::tsv()), (Table{{"\"a", "\"\"b\""}, {"'", "c\"d"}}));
}

TEST(Csv, PassesOverAByteOrderMark) {
  EXPECT_EQ(rows_of("\xef\xbb\xbf"
                    "a,b\n"),
            (Table{{"a", "b"}}));
  EXPECT_EQ(rows_of("\xef\xbb\xbf\"a\"\n"), Table{{"a"}});
  EXPECT_EQ(rows_of("\xef\xbb"), Table{{"\xef\xbb"}});
}

TEST(Csv, QuotesInCommentsAreText) {
  CsvOptions options;
  options.comment = '|';
  EXPECT_EQ(rows_of("| 5\" disks\na,b\n|\n\"c\",d\n", options), (Table{{"a", "b"}, {"c", "d"}}));
}

TEST(Csv, ReadsNumbersStrictly) {
  const std::string text = " 1,+2, -3 ,1e-3,nan,-inf,1e-400,0x1,1 2,,1e400,9223372036854775808,+-1,1.5\n";
  CsvReader row(bytes_of(text), "t.csv");
  ASSERT_TRUE(row.next());
  EXPECT_EQ(row.number(0), 1);
  EXPECT_EQ(row.integer(1), 2);
  EXPECT_EQ(row.integer(2), -3);
  EXPECT_EQ(row.number(3), 1e-3);
  EXPECT_TRUE(std::isnan(row.number(4)));
  EXPECT_EQ(row.number(5), -INFINITY);
  EXPECT_EQ(row.number(6), 0);
  EXPECT_EQ(message_of([&] { row.number(7); }), "t.csv: row 1 column 8: '0x1' is not a number");
  EXPECT_EQ(message_of([&] { row.integer(8); }), "t.csv: row 1 column 9: '1 2' is not an integer");
  EXPECT_EQ(message_of([&] { row.number(9); }), "t.csv: row 1 column 10: '' is not a number");
  EXPECT_EQ(message_of([&] { row.number(10); }), "t.csv: row 1 column 11: '1e400' is too large for a number");
  EXPECT_EQ(message_of([&] { row.integer(11); }), "t.csv: row 1 column 12: '9223372036854775808' does not fit 64 bits");
  EXPECT_EQ(message_of([&] { row.number(12); }), "t.csv: row 1 column 13: '+-1' is not a number");
  EXPECT_EQ(message_of([&] { row.integer(13); }), "t.csv: row 1 column 14: '1.5' is not an integer");
  EXPECT_EQ(message_of([&] { row.integer(14); }),
            "t.csv: row 1 column 15: there is no such column, the row has 14 fields");
  EXPECT_THROW(row[-1], Error);
}

TEST(Csv, ColumnsHaveNames) {
  const std::string text = "sentence\tlabel\nfine\t1\nbad\tx\n";
  CsvReader table(bytes_of(text), "dev.tsv", CsvOptions::tsv());
  table.read_header();
  EXPECT_EQ(table.header(), (std::vector<std::string>{"sentence", "label"}));
  const int label = table.column("label");
  ASSERT_TRUE(table.next());
  EXPECT_EQ(table[table.column("sentence")], "fine");
  EXPECT_EQ(table.integer(label), 1);
  ASSERT_TRUE(table.next());
  EXPECT_EQ(table.row(), 3);
  EXPECT_EQ(message_of([&] { table.integer(label); }), "dev.tsv: row 3 column 2 ('label'): 'x' is not an integer");
  EXPECT_EQ(message_of([&] { table.fail_in(label, "label {} is not 0 or 1", 2); }),
            "dev.tsv: row 3 column 2 ('label'): label 2 is not 0 or 1");
  EXPECT_EQ(message_of([&] { table.column("score"); }),
            "dev.tsv: row 1 column 1: no column is named 'score'; the names are 'sentence', 'label'");
  EXPECT_FALSE(table.next());
}

TEST(Csv, RowsMayDifferOnlyIfAllowed) {
  EXPECT_EQ(rows_of("a,b\nc\nd,e,f\n", {.ragged = true}), (Table{{"a", "b"}, {"c"}, {"d", "e", "f"}}));
}

/// Rows of many lengths, so that they cross the ends of the reader's buffer in every possible way.
Table long_table() {
  Table table;
  for (int i = 0; i < 3000; ++i) {
    table.push_back({std::to_string(i), std::string(static_cast<size_t>(i * 37 % 211), 'x'),
                     i % 5 == 0 ? "quoted \"\n\", " + std::string(static_cast<size_t>(i % 300), '"') : ""});
  }
  table.push_back({"long", std::string(300000, 'y'), std::string(300000, '\n')});
  return table;
}

std::string text_of(const Table& table, const CsvOptions& options) {
  std::string text;
  for (const auto& row : table) text += format_row(std::vector<std::string_view>(row.begin(), row.end()), options);
  return text;
}

TEST(Csv, RowsAcrossTheEndsOfTheBufferAreWhole) { EXPECT_EQ(rows_of(text_of(long_table(), {})), long_table()); }

TEST(Csv, WritesWhatItReadsPlainAndPacked) {
  const TemporaryFolder folder;
  for (const char* name : {"t.csv", "t.csv.gz"}) {
    CsvWriter writer(folder / name);
    for (const auto& row : long_table()) writer.write_row(std::vector<std::string_view>(row.begin(), row.end()));
    writer.commit();
    EXPECT_EQ(rows_of(CsvReader(folder / name)), long_table());
  }
  EXPECT_LT(std::filesystem::file_size(folder / "t.csv.gz"), std::filesystem::file_size(folder / "t.csv") / 10);
  EXPECT_EQ(format_row(std::vector<std::string_view>{"a", "b,c", "d\"e", "f\rg", "", " "}, {}),
            "a,\"b,c\",\"d\"\"e\",\"f\rg\",, \n");
  EXPECT_EQ(format_row(std::vector<std::string_view>{""}, {}), "\"\"\n");
  EXPECT_EQ(format_row(std::vector<std::string_view>{"a,\"b", ""}, CsvOptions::tsv()), "a,\"b\t\n");
  EXPECT_EQ(message_of([] { format_row(std::vector<std::string_view>{"a\tb"}, CsvOptions::tsv()); }),
            "csv: the field 'a\\x09b' holds a separator or a line end, which needs quotes; remove it, or allow quotes");
  CsvWriter writer(folder / "u.csv");
  writer.write_row({"a", "b"});
  EXPECT_EQ(message_of([&] { writer.write_row({"a"}); }),
            (folder / "u.csv").string() + ": row 2: 1 fields, the first row has 2; all rows of a table have as many");
}

TEST(Csv, AnUncommittedTableLeavesNothing) {
  const TemporaryFolder folder;
  { CsvWriter(folder / "t.csv").write_row({"a"}); }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Csv, MemoryIsBoundedByTheRowNotTheFile) {
  const TemporaryFolder folder;
  {
    CsvWriter writer(folder / "t.csv.gz");
    for (int i = 0; i < 200000; ++i) writer.write_row({"some text that is repeated", "0.123456789", "7"});
    writer.commit();
  }
  int64_t rows = 0;
  EXPECT_LE(largest_allocation([&] {
              CsvReader reader(folder / "t.csv.gz");
              while (reader.next()) ++rows;
            }),
            1 << 17);
  EXPECT_EQ(rows, 200000);
}

TEST(Csv, ARowAboveTheLimitIsRefused) {
  const CsvOptions options{.max_row_bytes = 100000};
  const std::string limit = std::string(100000, 'x');
  EXPECT_EQ(rows_of(limit + "\n" + limit, options), (Table{{limit}, {limit}}));
  EXPECT_EQ(message_of([&] { rows_of("a\n" + limit + "x\n", options); }),
            "t.csv: row 2 column 1: the row is longer than 100000 bytes; is it the right file?");
  EXPECT_EQ(
      message_of([&] { rows_of("a\n\"" + limit + "\n\n", options); }),
      "t.csv: row 2 column 1: the row is longer than 100000 bytes; a quote is not closed, or is it the right file?");
}

TEST(Csv, ReadsRealTables) {
  const auto path = shared_data("glue/SST-2/dev.tsv.gz");
  if (path.empty()) GTEST_SKIP() << "no glue/SST-2/dev.tsv.gz in $BOCHNER_DATA or ../shared/data";
  CsvReader table(path, CsvOptions::tsv());
  table.read_header();
  const int label = table.column("label");
  int64_t ones = 0;
  while (table.next()) ones += table.integer(label);
  EXPECT_EQ(table.row(), 873);
  EXPECT_EQ(ones, 444);
}

TEST(Csv, RefusesBadFiles) {
  const auto mark = [](std::string bytes) { return bytes; };
  std::vector<BadFile> files = {
      {"an unclosed quote", "a,\"b\n", "row 1 column 2: the quote that opens the field is not closed"},
      {"an unclosed quote in row 2", "a,b\n\"c,d\ne,f\n",
       "row 2 column 1: the quote that opens the field is not closed"},
      {"a lone quote", "\"", "row 1 column 1: the quote that opens the field is not closed"},
      {"an odd number of quotes", "\"\"\"", "row 1 column 1: the quote that opens the field is not closed"},
      {"text behind a closing quote", "\"a\"b,c\n", "row 1 column 1: 'b' follows the closing quote"},
      {"a blank behind a closing quote", "x,\"a\" ,c\n", "row 1 column 2: ' ' follows the closing quote"},
      {"a carriage return behind a closing quote", "\"a\"\rb\n", "row 1 column 1: '\\x0d' follows the closing quote"},
      {"a quote inside a plain field", "a,b\"c\"\n", "row 1 column 2: a quote inside the field 'b\"c\"'"},
      {"a quote behind a blank", "a, \"b\"\n", "row 1 column 2: a quote inside the field ' \"b\"'"},
      {"a quote inside a plain field of row 3", "a,b\n1,2\n3\"\",4\n", "row 3 column 1: a quote inside the field"},
      {"too few fields", "a,b,c\n1,2\n",
       "row 2 column 3: the row has 2 fields, the first one has 3; mend the row, if fields are separated by ','"},
      {"too many fields", "a,b\n1,2,3\n", "row 2 column 3: the row has 3 fields, the first one has 2"},
      {"an empty line", "a,b\n\n1,2\n",
       "row 2 column 2: the row has 1 fields, the first one has 2; remove the empty line"},
      {"an empty last line", "a,b\n1,2\n\n", "row 3 column 2: the row has 1 fields, the first one has 2"},
      {"a zero byte", mark(std::string("a,b\0c\n", 6)), "row 1 column 2: a zero byte"},
      {"a zero byte in quotes", mark(std::string("a\n\"b\0c\"\n", 9)), "row 2 column 1: a zero byte"},
      {"UTF-16, least byte first",
       mark(std::string("\xff\xfe"
                        "a\0,\0",
                        6)),
       "row 1 column 1: the text is UTF-16"},
      {"UTF-16, highest byte first", mark(std::string("\xfe\xff\0a", 4)), "row 1 column 1: the text is UTF-16"},
      {"UTF-16 without a mark", mark(std::string("a\0,\0b\0", 6)), "row 1 column 1: a zero byte"},
      {"a binary file",
       mark(std::string("\x7f"
                        "ELF\2\1\1\0\0\0",
                        10)),
       "row 1 column 1: a zero byte"},
      {"a row without end", std::string(20 << 20, 'x'), "row 1 column 1: the row is longer than 16777216 bytes"},
      {"too many columns", std::string(1 << 20, ','), "row 1 column 1048577: the row has more than 1048576 fields"},
  };
  const std::string packed = text(format_gzip(bytes_of("a,b\n1,2\n")));
  for (size_t size = 2; size < packed.size(); ++size) {
    files.push_back({fmt::format("packed, cut to {} bytes", size), packed.substr(0, size), "cut short"});
  }
  files.push_back({"packed, wrong checksum",
                   packed.substr(0, packed.size() - 8) + "abcd" + packed.substr(packed.size() - 4), "wrong checksum"});
  expect_refused(files, [](Bytes bytes, std::string_view file) { rows_of(CsvReader(bytes, file)); });
  EXPECT_EQ(message_of([] { CsvReader(bytes_of(""), "t.csv").read_header(); }),
            "t.csv: row 1 column 1: the file is empty, the names of its columns should stand here");
}

}  // namespace
}  // namespace bochner
