// The first byte chooses the options, the rest is the table. What the fast reader accepts, CsvReader reads to the same
// bits.
#include "engine/io/rows.h"

#include <cmath>
#include <cstring>

#include "engine/io/csv.h"
#include "engine/io/lines.h"
#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  PlainRowsOptions options;
  options.separator = (data[0] & 1) != 0 ? '\t' : (data[0] & 2) != 0 ? ' ' : ',';
  options.header = (data[0] & 4) != 0;
  options.label = static_cast<int64_t>(data[0] >> 3 & 3) - 2;
  options.max_classes = (data[0] & 32) != 0 ? 3 : 1000;
  options.block = (data[0] & 64) != 0 ? 24 : 256;  // so that many rows cross blocks and pieces
  const Bytes bytes = fuzz::input(data + 1, size - 1);
  const std::string_view text = text_of(bytes);
  if (text.starts_with("\x1f\x8b")) return 0;
  MemorySource source(bytes, "fuzz");
  PlainRowsResult rows;
  if (!read_plain_rows(source, options, rows)) return 0;

  // A row of names that CsvReader refuses is refused before the numbers are read (datasets/tables/tabular_read.cpp).
  std::unique_ptr<CsvReader> opened;
  try {
    opened = std::make_unique<CsvReader>(
        bytes, "fuzz", CsvOptions{.separator = options.separator, .ragged = options.header, .skip_empty_lines = true});
    if (options.header) opened->next();
  } catch (const Error&) {
    return 0;
  }
  CsvReader& reader = *opened;
  int64_t count = 0;
  for (const RowPiece& piece : rows.pieces) {
    for (size_t i = 0; i < piece.labels.size(); ++i, ++count) {
      fuzz::must(reader.next(), "no more rows than CsvReader has");
      fuzz::must(reader.size() == rows.columns + 1, "as many fields");
      const int label = static_cast<int>(options.label < 0 ? options.label + reader.size() : options.label);
      size_t at = i * static_cast<size_t>(rows.columns);
      for (int column = 0; column < reader.size(); ++column) {
        if (column == label) continue;
        const double exact = reader.number(column);
        const auto value = static_cast<float>(exact);
        fuzz::must(std::isfinite(value) && std::memcmp(&value, &piece.values[at++], sizeof value) == 0,
                   "the same bits");
      }
      fuzz::must(trimmed(reader[label]) == rows.classes[static_cast<size_t>(piece.labels[i])], "the same class");
    }
  }
  fuzz::must(!reader.next() && count == rows.rows, "no fewer rows than CsvReader has");
  return 0;
}
