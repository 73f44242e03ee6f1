// A table of text: for the terminal, the report, and papers.
#pragma once

#include <string>
#include <vector>

namespace bochner {

inline constexpr const char* kNoNumber = "–";  ///< a cell for what was not measured or published

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the head

  /// One line for the head and one for each row. Columns are two blanks apart; the first one and those of words are
  /// aligned left, those of numbers right.
  std::string text() const;
  /// A <table> element with all cells escaped; columns of words are aligned left, and their lines wrap.
  std::string html() const;
  /// A Markdown table; columns of numbers are aligned right.
  std::string markdown() const;
  /// A LaTeX tabular environment.
  std::string latex() const;
};

}  // namespace bochner
