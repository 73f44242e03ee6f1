// A table of words: for the terminal, the report, and papers.
#pragma once

#include <string>
#include <vector>

namespace bochner {

inline constexpr const char* kNoNumber = "–";  ///< a cell of what was not measured or published

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the head

  /// One line for the head and one for each row, with columns two blanks apart, the first and those of words aligned
  /// left, those of numbers right.
  std::string text() const;
  /// A <table> element with all cells escaped; columns of words are aligned left, and their lines wrap.
  std::string html() const;
  /// A table of Markdown: columns of numbers to the right.
  std::string markdown() const;
  /// A tabular environment of LaTeX.
  std::string latex() const;
};

}  // namespace bochner
