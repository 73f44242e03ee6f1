// The lists of Pathfinder's images: `metadata/0.npy`, `metadata/1.npy` ..., which are text. See files.h for a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/error.h"

namespace bochner::pathfinder {

struct Row {
  std::string file;
  int64_t number = 0;  ///< of the line, from 1
  std::string image;   ///< `imgs/3/sample_17.png`
  int label = 0;       ///< 0 or 1

  /// `metadata/3.npy: row 18`.
  std::string where() const { return fmt::format("{}: row {}", file, number); }
  template <class... Args>
  [[noreturn]] void fail_with(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: {}", where(), fmt::format(format, std::forward<Args>(args)...));
  }
};

/// All rows, the files in the order of their numbers. A line that is malformed, names an image outside the folder or
/// one that was listed before, a file that is not text, and a folder without a row are Errors with file, row and
/// reason.
std::vector<Row> read_metadata(const std::filesystem::path& folder);

}  // namespace bochner::pathfinder
