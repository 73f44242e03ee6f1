#include "experiments/common/report/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/common/report/chart.h"

namespace bochner {
namespace {

/// Characters, not bytes, since the text contains ± and –.
size_t width(const std::string& utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Whether the column holds words instead of numbers.
bool holds_words(const std::vector<std::vector<std::string>>& rows, size_t column) {
  bool any = false;
  for (const auto& row : rows) {
    const std::string& cell = row[column];
    if (cell.empty() || cell == kNoNumber) continue;
    if (cell.find_first_of("0123456789") <= 1) return false;  // behind a sign at most
    any = true;
  }
  return any;
}

/// For the columns after the first.
std::vector<bool> columns_of_words(const Table& table) {
  std::vector<bool> words(table.head.size(), false);
  for (size_t i = 1; i < table.head.size(); ++i) words[i] = holds_words(table.rows, i);
  return words;
}

/// Replaces each character by its name in `names`.
std::string replaced(const std::string& text, const std::vector<std::pair<std::string, std::string>>& names) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) {
      return text.compare(i, name.first.size(), name.first) == 0;
    });
    result += found == names.end() ? text.substr(i, 1) : found->second;
    i += found == names.end() ? 1 : found->first.size();
  }
  return result;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + replaced(cell, {{"|", "\\|"}}) + " |";
  return line + "\n";
}

std::string latex_row(const std::vector<std::string>& cells) {
  std::vector<std::string> written;
  for (const std::string& cell : cells) {
    written.push_back(replaced(cell, {{"±", "$\\pm$"},
                                      {"–", "--"},
                                      {"\\", "\\textbackslash{}"},
                                      {"^", "\\^{}"},
                                      {"~", "\\~{}"},
                                      {"&", "\\&"},
                                      {"%", "\\%"},
                                      {"$", "\\$"},
                                      {"#", "\\#"},
                                      {"_", "\\_"},
                                      {"{", "\\{"},
                                      {"}", "\\}"}}));
  }
  return fmt::format("{} \\\\\n", fmt::join(written, " & "));
}

std::string html_row(const std::vector<std::string>& cells, const std::vector<bool>& words, const char* tag) {
  std::string html = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    html += fmt::format("<{0}{2}>{1}</{0}>", tag, html_escaped(cells[i]), words[i] ? " class=\"words\"" : "");
  }
  return html + "</tr>";
}

}  // namespace

std::string Table::text() const {
  std::vector<size_t> widths(head.size(), 0);
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width(cells[i]));
  };
  widen(head);
  for (const auto& row : rows) widen(row);
  const std::vector<bool> words = columns_of_words(*this);
  std::string text;
  const auto put = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths[i] - width(cells[i]), ' ');
      line += (i == 0 ? "" : "  ") + (i == 0 || words[i] ? cells[i] + blanks : blanks + cells[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  put(head);
  for (const auto& row : rows) put(row);
  return text;
}

std::string Table::markdown() const {
  const std::vector<bool> words = columns_of_words(*this);
  std::vector<std::string> rule;
  for (size_t i = 0; i < head.size(); ++i) rule.emplace_back(i == 0 || words[i] ? "---" : "---:");
  std::string text = markdown_row(head) + markdown_row(rule);
  for (const auto& row : rows) text += markdown_row(row);
  return text;
}

std::string Table::latex() const {
  const std::vector<bool> words = columns_of_words(*this);
  std::string columns;
  for (size_t i = 0; i < head.size(); ++i) columns += i == 0 || words[i] ? 'l' : 'r';
  std::string text = "\\begin{tabular}{" + columns + "}\n\\hline\n" + latex_row(head) + "\\hline\n";
  for (const auto& row : rows) text += latex_row(row);
  return text + "\\hline\n\\end{tabular}\n";
}

std::string Table::html() const {
  const std::vector<bool> words = columns_of_words(*this);
  std::string body;
  for (const auto& row : rows) body += html_row(row, words, "td") + "\n";
  return fmt::format("<table><thead>{}</thead><tbody>\n{}</tbody></table>", html_row(head, words, "th"), body);
}

}  // namespace bochner
