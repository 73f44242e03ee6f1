// Rows of a table that hold more than numbers, and what both readers share. Internal to tabular_read.cpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tables/tabular.h"
#include "engine/io/csv.h"
#include "engine/io/rows.h"

namespace bochner::tables {

constexpr int64_t kMostClasses = 10000;

/// Numbers, and classes numbered in the order in which they occur.
struct Parsed {
  std::vector<RowPiece> pieces;
  int64_t rows = 0;
  std::vector<std::string> classes;
  int64_t label = 0;  ///< its column; for plain rows, -1 and below count from the end
  int64_t first_row = 0;
  // For rows that are not plain:
  std::vector<int> columns;                          ///< of the file, that were read
  std::vector<std::vector<std::string>> categories;  ///< of each of these, in order; empty: numbers
  bool has_gaps = false;
};

/// The whole of `text` as a number.
std::optional<double> number_of(std::string_view text);
/// Whether that number is NaN.
bool is_nan(std::string_view text);

/// Sorts names by value if all are numbers with an order, otherwise alphabetically; returns the place of each.
std::vector<int64_t> put_in_order(std::vector<std::string>& names);

/// A reader at the first row of data.
CsvReader opened(const std::filesystem::path& path, const TableFormat& format);

/// Reads row by row, with an Error that names row and column of what is wrong. Memory: the numbers, 4 bytes a field,
/// and the different words of each column.
Parsed parse_any(const std::filesystem::path& path, const TableFormat& format);

}  // namespace bochner::tables
