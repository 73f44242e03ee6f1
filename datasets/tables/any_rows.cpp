#include "datasets/tables/any_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "engine/io/lines.h"

namespace bochner::tables {
namespace {

constexpr size_t kMostCategories = 1000;

/// The column with the name or number `name` in the row that `reader` is at; numbers count from 0, or from -1 at the
/// end.
int column_of(const CsvReader& reader, const TableFormat& format, const std::string& name, const char* what) {
  if (const auto number = number_of(name); number && *number == std::floor(*number)) {
    const double place = *number + (*number < 0 ? reader.size() : 0);
    if (place < 0 || place >= reader.size()) {
      reader.fail_in(0, "there is no column {} for {}, the row has {} fields", name, what, reader.size());
    }
    return static_cast<int>(place);
  }
  const auto known = std::find(format.names.begin(), format.names.end(), name);
  if (known != format.names.end()) {
    const auto place = static_cast<int>(known - format.names.begin());
    if (place >= reader.size()) {
      reader.fail_in(0, "'{}' is column {} for {}, but the row has {} fields", name, place + 1, what, reader.size());
    }
    return place;
  }
  if (!format.header) {
    reader.fail_in(0, "the column of {} is called '{}', but the file has no header; give its number", what, name);
  }
  return reader.column(name);
}

/// Names of categories or classes in the order in which they occur, each with its number.
class Names {
 public:
  /// The number of a name; -1 if there would be more than `most`.
  int64_t number(std::string_view name, size_t most) {
    auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      if (numbers_.size() == most) return -1;
      found = numbers_.emplace(name, static_cast<int64_t>(names_.size())).first;
      names_.emplace_back(name);
    }
    return found->second;
  }
  std::vector<std::string>& all() { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

/// Reads rows of numbers, words and gaps. An Error names row and column of what is wrong.
class AnyRows {
 public:
  AnyRows(const std::filesystem::path& path, const TableFormat& format) : path_(path), format_(format) {}

  Parsed run() {
    if (format_.words) find_kinds();
    CsvReader reader = opened(path_, format_);
    RowPiece piece;
    Names classes;
    while (reader.next()) {
      if (result_.first_row == 0) {
        settle(reader);
        result_.first_row = reader.row();
      }
      for (size_t i = 0; i < result_.columns.size(); ++i) piece.values.push_back(value_of(reader, i));
      const int label = static_cast<int>(result_.label);
      std::string_view text = trimmed(reader[label]);
      if (format_.label_ends_in_stop && text.ends_with('.')) text.remove_suffix(1);
      if (text.empty()) reader.fail_in(label, "the label is empty");
      if (format_.words && is_gap(text)) reader.fail_in(label, "the label is missing ({}); drop the row", shown(text));
      if (is_nan(text)) reader.fail_in(label, "the label {} names no class; correct or drop the row", shown(text));
      piece.labels.push_back(classes.number(text, kMostClasses));
      if (piece.labels.back() < 0) {
        reader.fail_in(label, "more than {} classes; is this the label column?", kMostClasses);
      }
    }
    result_.rows = static_cast<int64_t>(piece.labels.size());
    result_.classes = std::move(classes.all());
    order_categories(piece);
    result_.pieces.push_back(std::move(piece));
    return std::move(result_);
  }

 private:
  bool is_gap(std::string_view text) const {
    return text.empty() || std::find(format_.missing.begin(), format_.missing.end(), text) != format_.missing.end();
  }

  /// Decides at the first row which columns are read.
  void settle(const CsvReader& reader) {
    result_.label = column_of(reader, format_, format_.label, "the label");
    std::vector<bool> left_out(static_cast<size_t>(reader.size()));
    for (const std::string& name : format_.leave_out) {
      const int column = column_of(reader, format_, name, "leaving out");
      if (column == result_.label) reader.fail_in(column, "the label cannot be left out");
      left_out[static_cast<size_t>(column)] = true;
    }
    for (int column = 0; column < reader.size(); ++column) {
      if (column != result_.label && !left_out[static_cast<size_t>(column)]) result_.columns.push_back(column);
    }
    is_category_.resize(static_cast<size_t>(reader.size()));
    for (const std::string& name : format_.categories) {
      is_category_[static_cast<size_t>(column_of(reader, format_, name, "categories"))] = true;
    }
    names_.resize(result_.columns.size());
  }

  /// Columns of words are those of which no field is a number.
  void find_kinds() {
    CsvReader reader = opened(path_, format_);
    std::vector<bool> numbers;
    std::vector<bool> words;
    while (reader.next()) {
      numbers.resize(static_cast<size_t>(reader.size()));
      words.resize(static_cast<size_t>(reader.size()));
      for (int column = 0; column < reader.size(); ++column) {
        const auto at = static_cast<size_t>(column);
        if (numbers[at] && words[at]) continue;
        const std::string_view text = trimmed(reader[column]);
        if (is_gap(text)) continue;
        (number_of(text.starts_with('+') ? text.substr(1) : text) ? numbers : words)[at] = true;
      }
    }
    is_category_.resize(words.size());
    for (size_t i = 0; i < words.size(); ++i) is_category_[i] = words[i] && !numbers[i];
  }

  float value_of(const CsvReader& reader, size_t i) {
    const int column = result_.columns[i];
    const std::string_view text = trimmed(reader[column]);
    if (format_.words && is_gap(text)) {
      result_.has_gaps = true;
      return std::nanf("");
    }
    if (is_category_[static_cast<size_t>(column)]) {
      const int64_t number = names_[i].number(text, kMostCategories);
      if (number < 0) {
        reader.fail_in(column, "more than {} different words, as of a text or an identifier{}", kMostCategories,
                       advice("; leave the column out ({0}leave-out={1})", column, text));
      }
      return static_cast<float>(number);
    }
    if (format_.words && !number_of(text.starts_with('+') ? text.substr(1) : text)) {
      reader.fail_in(column, "{} is not a number, as other fields of the column are; correct it{}", shown(text),
                     advice(shown(text).size() == text.size() + 2  // else an option cannot name it
                                ? ", or say that it stands for a missing value ({0}missing={2}), or that the column "
                                  "holds categories ({0}categories={1})"
                                : ", or say that the column holds categories ({0}categories={1})",
                            column, text));
    }
    const auto value = static_cast<float>(reader.number(column));
    if (!std::isfinite(value)) {
      reader.fail_in(column, "'{}' is no finite number of f32; correct or drop the row", text);
    }
    return value;
  }

  /// The options that help, with {0} for the prefix of their names, {1} for the column and {2} for the field.
  std::string advice(fmt::string_view words, int column, std::string_view text) const {
    return format_.options.empty() ? "" : fmt::format(fmt::runtime(words), format_.options, column, text);
  }

  void order_categories(RowPiece& piece) {
    const size_t columns = result_.columns.size();
    for (size_t i = 0; i < columns; ++i) {
      result_.categories.push_back(std::move(names_[i].all()));
      if (result_.categories.back().empty()) continue;
      const std::vector<int64_t> place = put_in_order(result_.categories.back());
      for (size_t at = i; at < piece.values.size(); at += columns) {
        float& value = piece.values[at];
        if (!std::isnan(value)) value = static_cast<float>(place[static_cast<size_t>(value)]);
      }
    }
  }

  const std::filesystem::path& path_;
  const TableFormat& format_;
  std::vector<bool> is_category_;  ///< for each column of the file
  std::vector<Names> names_;       ///< for each column that is read
  Parsed result_;
};

}  // namespace

std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error == std::errc::invalid_argument || stop != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);  // 0 or infinite
  return value;
}

bool is_nan(std::string_view text) {
  const std::optional<double> number = number_of(text);
  return number && std::isnan(*number);
}

std::vector<int64_t> put_in_order(std::vector<std::string>& names) {
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const bool numbers =
      std::all_of(names.begin(), names.end(), [](const auto& name) { return number_of(name) && !is_nan(name); });
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return numbers ? *number_of(names[a]) < *number_of(names[b]) : names[a] < names[b];
  });
  std::vector<int64_t> place(names.size());
  std::vector<std::string> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int64_t>(i);
    sorted.push_back(names[order[i]]);
  }
  names = sorted;
  return place;
}

CsvReader opened(const std::filesystem::path& path, const TableFormat& format) {
  CsvReader reader(
      path, {.separator = format.separator, .skip_empty_lines = true, .comment = format.comment, .trims_names = true});
  if (format.header) reader.read_header();
  return reader;
}

Parsed parse_any(const std::filesystem::path& path, const TableFormat& format) { return AnyRows(path, format).run(); }

}  // namespace bochner::tables
