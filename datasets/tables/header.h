// Finds out whether a table begins with the names of its columns.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bochner {

struct FirstRow {
  bool is_names = false;
  std::vector<std::string> fields;
};

/// Decides from the first row and up to 1000 rows after it. A field is missing if it is empty, `?`, `NA` or `nan`,
/// otherwise a number or a word. In a column with numbers below, a word on top speaks for names and a number against
/// them; the majority of such columns decides. If there is no such column, that is, in a table of words, the first row
/// holds names if its fields all differ, none is missing or a number, and none occurs again below.
FirstRow judge_first_row(const std::filesystem::path& path, char separator = ',');

}  // namespace bochner
