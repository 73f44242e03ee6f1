// Rows of finite numbers with one column of words, read by several threads at memory speed: the plain subset of what
// CsvReader (csv.h) reads.
//
//   PlainRowsResult rows;
//   if (!read_plain_rows(*open_unpacked(path), {.label = 54}, rows)) ...   // something in the file needs CsvReader
//
// The result equals that of CsvReader bit for bit. Quotes, zero bytes, ragged rows, fields that are not a finite f32
// and overlong rows are left to CsvReader, which reads them or reports row and column.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/io/stream.h"

namespace bochner {

struct PlainRowsOptions {
  char separator = ',';
  /// The label's column, counted from 0, or from the end as -1, -2, ...
  int64_t label = -1;
  /// Whether the first row holds names and is skipped.
  bool header = false;
  /// Fields in every row; 0: as many as in the first row.
  int64_t fields = 0;
  int64_t max_classes = 10000;
  /// Bytes read at once and divided among the threads; a longer row is left to CsvReader.
  int64_t block = int64_t{4} << 20;
};

/// The numbers of some neighbouring rows.
struct RowPiece {
  std::vector<float> values;    ///< (rows, columns)
  std::vector<int64_t> labels;  ///< places in PlainRowsResult::classes
};

struct PlainRowsResult {
  int64_t rows = 0;
  int64_t columns = 0;  ///< without the label's
  std::vector<RowPiece> pieces;
  std::vector<std::string> classes;  ///< in the order of their first rows
};

/// Reads all rows of `source` from its current position. False if some row is not plain; `result` is then meaningless.
/// Errors of the source, such as a truncated gzip file, are thrown.
bool read_plain_rows(ByteSource& source, const PlainRowsOptions& options, PlainRowsResult& result);

}  // namespace bochner
