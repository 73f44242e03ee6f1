// A table of words: for the terminal, and for the report.
#pragma once

#include <string>
#include <vector>

namespace bochner {

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the head

  /// One line for the head and one a row, columns two blanks apart: the first to the left, the others to the right.
  std::string text() const;
  /// A <table> element with all cells escaped; columns of words stand to the left, and their lines are broken.
  std::string html() const;
};

}  // namespace bochner
