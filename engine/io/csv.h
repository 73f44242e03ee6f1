// Tables as text: comma-separated (RFC 4180) and tab-separated, plain or gzip, of any length in bounded memory.
//
//   CsvReader table("SST-2/train.tsv.gz", CsvOptions::tsv());
//   table.read_header();
//   const int label = table.column("label");
//   while (table.next()) use(table[0], table.integer(label));
//
// Errors name the file, row and column, counted from 1 as editors do: `train.tsv: row 17 column 2: 'x' is not an
// integer`. Functions count columns from 0.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/stream.h"

namespace bochner {

struct CsvOptions {
  char separator = ',';
  /// RFC 4180: a field in double quotes may hold separators, line ends, and quotes written twice. If false, a quote is
  /// an ordinary character.
  bool quotes = true;
  /// Whether rows may differ in their number of fields.
  bool ragged = false;
  /// Whether lines without any character are skipped; otherwise they are rows of one empty field.
  bool skip_empty_lines = false;
  /// Lines that begin with this are skipped; 0: no lines are.
  char comment = 0;
  /// Whether blanks around the names of columns are removed.
  bool trims_names = false;
  /// A longer row is refused, as an unclosed quote would make one row of the rest of the file.
  int64_t max_row_bytes = int64_t{16} << 20;

  static CsvOptions csv() { return {}; }
  /// Tabs, no quotes: the form of GLUE and LRA.
  static CsvOptions tsv() { return {.separator = '\t', .quotes = false}; }
};

/// Reads a table row by row. Lines end with LF or CRLF, except perhaps the last one; a UTF-8 byte order mark is
/// skipped.
class CsvReader {
 public:
  explicit CsvReader(const std::filesystem::path& path, CsvOptions options = {});
  /// The same for bytes in memory, which must outlive the reader.
  CsvReader(Bytes bytes, std::string_view file, CsvOptions options = {});

  /// Goes to the next row; false at the end.
  bool next();
  /// The number of the current row, counted from 1 and including the header; skipped empty lines do not count.
  int64_t row() const { return row_; }
  /// The number of fields in the current row.
  int size() const { return static_cast<int>(fields_.size()); }
  /// A field as written, valid until next(). An Error if the row has no such column.
  std::string_view operator[](int column) const;
  /// The field as a number, ignoring blanks around it; anything else in it is an Error. `nan` and `inf` are numbers.
  double number(int column) const;
  int64_t integer(int column) const;

  /// Reads the first row as the names of columns.
  void read_header();
  const std::vector<std::string>& header() const { return header_; }
  /// The column of that name; an Error lists the names if there is none.
  int column(std::string_view name) const;

  /// The Error `file: row R column C: message` about a field of the current row.
  template <class... Args>
  [[noreturn]] void fail_in(int column, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: {}", place(column), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  CsvReader(std::unique_ptr<ByteSource> source, CsvOptions options);

  bool read_more();
  void skip_mark();
  bool find_row(size_t& length, size_t& next, bool& quotes);
  void split(char* begin, char* end, bool quotes);
  char* split_quoted(char* begin, char* end);
  void add_field(const char* begin, const char* end);
  std::string place(int column) const;

  std::unique_ptr<ByteSource> source_;
  CsvOptions options_;
  std::vector<char> buffer_;  ///< [begin_, end_) is read but not yet taken
  size_t begin_ = 0;
  size_t end_ = 0;
  bool exhausted_ = false;
  int64_t row_ = 0;
  int64_t columns_ = -1;  ///< of the first row
  std::vector<std::string_view> fields_;
  std::vector<std::string> header_;
};

/// Writes a table, whole or not at all (file.h), compressed if the name ends in `.gz`. Lines end with LF.
class CsvWriter {
 public:
  explicit CsvWriter(const std::filesystem::path& path, CsvOptions options = {});
  ~CsvWriter();

  /// Quotes the fields that need it. In a format without quotes, a field with a separator or a line end is an Error.
  void write_row(std::span<const std::string_view> fields);
  void write_row(std::initializer_list<std::string_view> fields) {
    write_row(std::span<const std::string_view>(fields.begin(), fields.size()));
  }
  void commit();

 private:
  struct Output;

  std::string name_;
  CsvOptions options_;
  std::unique_ptr<Output> output_;
  std::string buffer_;
  int64_t row_ = 0;
  size_t columns_ = 0;
};

/// One row as CsvWriter writes it, with its line end.
std::string format_row(std::span<const std::string_view> fields, const CsvOptions& options);

}  // namespace bochner
