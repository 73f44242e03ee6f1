#include "datasets/tables/header.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "engine/io/csv.h"
#include "engine/io/lines.h"

namespace bochner {
namespace {

constexpr int64_t kRows = 1000;

enum class Kind : unsigned char { missing, number, word };

Kind kind_of(std::string_view field) {
  const std::string_view text = trimmed(field);
  for (const char* sign : {"", "?", "NA", "nan", "NaN"}) {
    if (text == sign) return Kind::missing;
  }
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + (text[0] == '+' ? 1 : 0), end, value);
  return stop == end && error != std::errc::invalid_argument ? Kind::number : Kind::word;
}

}  // namespace

FirstRow judge_first_row(const std::filesystem::path& path, char separator) {
  CsvReader reader(path, {.separator = separator, .ragged = true, .skip_empty_lines = true});
  FirstRow first;
  if (!reader.next()) return first;
  for (int column = 0; column < reader.size(); ++column) first.fields.emplace_back(trimmed(reader[column]));
  const size_t columns = first.fields.size();
  std::vector<Kind> below(columns, Kind::missing);
  std::vector<bool> again(columns);
  for (int64_t row = 0; row < kRows && reader.next(); ++row) {
    for (size_t i = 0; i < std::min(columns, static_cast<size_t>(reader.size())); ++i) {
      const std::string_view field = reader[static_cast<int>(i)];
      below[i] = std::max(below[i], kind_of(field));
      if (trimmed(field) == first.fields[i]) again[i] = true;
    }
  }
  int64_t votes = 0;
  bool numbers = false;
  bool like_names = std::set(first.fields.begin(), first.fields.end()).size() == columns;
  for (size_t i = 0; i < columns; ++i) {
    const Kind top = kind_of(first.fields[i]);
    if (top != Kind::word || again[i]) like_names = false;
    if (below[i] != Kind::number || top == Kind::missing) continue;
    numbers = true;
    votes += top == Kind::word ? 1 : -1;
  }
  first.is_names = numbers ? votes > 0 : like_names;
  return first;
}

}  // namespace bochner
