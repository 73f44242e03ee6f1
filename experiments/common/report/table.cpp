#include "experiments/common/report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/common/report/chart.h"

namespace bochner {
namespace {

/// Characters, not bytes: what is shown holds ± and –.
size_t width(const std::string& utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Whether the column holds words instead of numbers.
bool holds_words(const std::vector<std::vector<std::string>>& rows, size_t column) {
  bool any = false;
  for (const auto& row : rows) {
    const std::string& cell = row[column];
    if (cell.empty() || cell == "–") continue;
    if (cell.find_first_of("0123456789") <= 1) return false;  // behind a sign at most
    any = true;
  }
  return any;
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
  std::string text;
  const auto put = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths[i] - width(cells[i]), ' ');
      line += i == 0 ? cells[i] + blanks : "  " + blanks + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  put(head);
  for (const auto& row : rows) put(row);
  return text;
}

std::string Table::html() const {
  std::vector<bool> words(head.size(), false);
  for (size_t i = 1; i < head.size(); ++i) words[i] = holds_words(rows, i);
  std::string body;
  for (const auto& row : rows) body += html_row(row, words, "td") + "\n";
  return fmt::format("<table><thead>{}</thead><tbody>\n{}</tbody></table>", html_row(head, words, "th"), body);
}

}  // namespace bochner
