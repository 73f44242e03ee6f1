// Reading a table from its text or from the cache beside it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "datasets/tables/tabular.h"
#include "engine/io/csv.h"
#include "engine/io/rows.h"
#include "engine/io/safetensors.h"
#include "engine/parallel.h"

namespace bochner {
namespace {

constexpr int64_t kMostClasses = 10000;
constexpr const char* kCacheVersion = "2";
constexpr const char* kCacheSuffix = ".bochner-cache";

/// A number at the whole of `text`.
std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What a cache must agree with: the file it was made of, and how that was read.
std::string stamp_of(const std::filesystem::path& path, const TableFormat& format) {
  const auto time = std::filesystem::last_write_time(path).time_since_epoch().count();
  return fmt::format("{} {} {} {} {} {}", kCacheVersion, std::filesystem::file_size(path), time, format.header,
                     static_cast<int>(format.separator), format.label);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return text;
}

std::vector<std::string> parted(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    names.push_back(text.substr(begin, end - begin));
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return names;
}

std::optional<NumericTable> from_cache(const std::filesystem::path& path, const TableFormat& format, const Say& say) {
  const std::filesystem::path cache = path.string() + kCacheSuffix;
  if (!format.cache || !std::filesystem::exists(cache)) return std::nullopt;
  try {
    const Safetensors stored = read_safetensors(cache);
    if (stored.metadata.at("stamp") != stamp_of(path, format)) return std::nullopt;
    NumericTable table;
    table.file = path.string();
    table.features = stored.tensors.at("features");
    table.labels = stored.tensors.at("labels").cast(DType::i64);
    table.class_names = parted(stored.metadata.at("classes"));
    table.columns = parted(stored.metadata.at("columns"));
    table.first_row = format.header ? 2 : 1;
    table.label_column = std::stoll(stored.metadata.at("label"));
    table.from_cache = true;
    const auto classes = static_cast<int64_t>(table.class_names.size());
    const bool fits = table.features.rank() == 2 && table.features.dtype() == DType::f32 && table.labels.rank() == 1 &&
                      table.labels.size(0) == table.features.size(0);
    const auto* const labels = table.labels.data<int64_t>();
    if (!fits || std::any_of(labels, labels + table.labels.size(), [&](int64_t y) { return y < 0 || y >= classes; })) {
      return std::nullopt;
    }
    return table;
  } catch (const std::exception& damaged) {
    if (say) say(fmt::format("{}: {}; reading the text again", cache.string(), damaged.what()));
    return std::nullopt;
  }
}

void to_cache(const std::filesystem::path& path, const TableFormat& format, const NumericTable& table, const Say& say) {
  if (!format.cache) return;
  const std::string cache = path.string() + kCacheSuffix;
  try {
    write_safetensors(cache, {{"features", table.features}, {"labels", table.labels.cast(DType::i32)}},
                      {{"stamp", stamp_of(path, format)},
                       {"classes", joined(table.class_names)},
                       {"columns", joined(table.columns)},
                       {"label", fmt::format("{}", table.label_column)}});
  } catch (const Error& error) {
    if (say) say(fmt::format("no cache beside {}: {}", path.string(), error.what()));
  }
}

/// The number of the label's column in rows of `columns` fields.
int label_column(const CsvReader& reader, const TableFormat& format, int columns) {
  if (const auto number = number_of(format.label); number && *number == std::floor(*number)) {
    const int place = static_cast<int>(*number) + (*number < 0 ? columns : 0);
    if (place < 0 || place >= columns) {
      reader.fail_in(0, "there is no column {} for the label, the row has {} fields", format.label, columns);
    }
    return place;
  }
  if (!format.header) {
    reader.fail_in(0, "the label column is called '{}', but the file has no header; give its number", format.label);
  }
  return reader.column(format.label);
}

/// Classes by value where all are numbers, else by alphabet, and the labels renumbered to match.
void order_classes(std::vector<std::string>& names, std::vector<int64_t>& labels) {
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const bool numbers = std::all_of(names.begin(), names.end(), [](const auto& name) { return number_of(name); });
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
  for (int64_t& label : labels) label = place[static_cast<size_t>(label)];
}

/// Refuses a label that is measured: many classes, some of them no whole numbers.
void require_classes(const NumericTable& table) {
  constexpr size_t kFew = 100;
  if (table.class_names.size() <= kFew) return;
  for (const std::string& name : table.class_names) {
    const auto number = number_of(name);
    if (!number) return;
    if (*number == std::floor(*number)) continue;
    fail(
        "{}: column {} holds {} different numbers in {} rows, such as {}: measurements rather than classes; name the "
        "column of the class",
        table.file, table.label_column + 1, table.class_names.size(), table.rows(), name);
  }
}

/// Numbers, and classes by place among their names in whatever order they came.
struct Parsed {
  std::vector<RowPiece> pieces;
  int64_t rows = 0;
  std::vector<std::string> classes;
  int64_t label = 0;  ///< its column; of plain rows from -1 counted from the end
};

/// By several threads, where the file is plain enough for that (engine/io/rows.h).
std::optional<Parsed> parse_plain(const std::filesystem::path& path, const TableFormat& format,
                                  const CsvReader& names) {
  PlainRowsOptions options{.separator = format.separator, .header = format.header, .max_classes = kMostClasses};
  options.fields = static_cast<int64_t>(names.header().size());
  if (const auto number = number_of(format.label); number && *number == std::floor(*number)) {
    options.label = static_cast<int64_t>(*number);
  } else if (format.header) {
    options.label = names.column(format.label);
  } else {
    return std::nullopt;
  }
  PlainRowsResult found;
  const std::unique_ptr<ByteSource> source = open_unpacked(path);
  if (!read_plain_rows(*source, options, found) || found.rows == 0) return std::nullopt;
  return Parsed{std::move(found.pieces), found.rows, std::move(found.classes), options.label};
}

/// Row by row, with an Error that names row and column of what is wrong.
Parsed parse_any(CsvReader& reader, const TableFormat& format) {
  Parsed result;
  RowPiece piece;
  std::map<std::string, int64_t, std::less<>> classes;
  int label = -1;
  while (reader.next()) {
    if (label < 0) label = label_column(reader, format, reader.size());
    for (int column = 0; column < reader.size(); ++column) {
      if (column == label) continue;
      const auto value = static_cast<float>(reader.number(column));
      if (!std::isfinite(value)) {
        reader.fail_in(column, "'{}' is no finite number of f32; mend or drop the row", trimmed(reader[column]));
      }
      piece.values.push_back(value);
    }
    const std::string_view text = trimmed(reader[label]);
    if (text.empty()) reader.fail_in(label, "the label is empty");
    auto found = classes.find(text);
    if (found == classes.end()) {
      const auto number = static_cast<int64_t>(classes.size());
      if (number == kMostClasses)
        reader.fail_in(label, "more than {} classes; is this the label column?", kMostClasses);
      found = classes.emplace(text, number).first;
      result.classes.emplace_back(text);
    }
    piece.labels.push_back(found->second);
  }
  result.label = label;
  result.rows = static_cast<int64_t>(piece.labels.size());
  result.pieces.push_back(std::move(piece));
  return result;
}

}  // namespace

NumericTable read_table(const std::filesystem::path& path, const TableFormat& format, const Say& say) {
  if (auto cached = from_cache(path, format, say)) return std::move(*cached);
  CsvReader reader(path, {.separator = format.separator, .skip_empty_lines = true});
  NumericTable table;
  table.file = path.string();
  if (format.header) {
    reader.read_header();
    table.columns = reader.header();
    table.first_row = 2;
  }
  std::optional<Parsed> parsed = parse_plain(path, format, reader);
  if (!parsed) parsed = parse_any(reader, format);
  if (parsed->rows == 0) fail("{}: row {}: no rows of data; the file is empty", table.file, table.first_row);
  const int64_t rows = parsed->rows;
  const int64_t columns =
      static_cast<int64_t>(parsed->pieces.front().values.size() / parsed->pieces.front().labels.size());
  if (columns < 1) {
    fail("{}: row {}: no column but the label's; are fields separated by something else than {}?", table.file,
         table.first_row, shown({&format.separator, 1}));
  }
  if (parsed->classes.size() < 2) {
    fail("{}: all rows are of class '{}'; at least 2 classes are needed", table.file, parsed->classes.front());
  }
  table.label_column = parsed->label + (parsed->label < 0 ? columns + 1 : 0);
  table.features = Tensor::empty({rows, columns});
  std::vector<int64_t> labels;
  std::vector<float*> places;
  labels.reserve(static_cast<size_t>(rows));
  for (const RowPiece& piece : parsed->pieces) {
    places.push_back(table.features.data<float>() + static_cast<int64_t>(labels.size()) * columns);
    labels.insert(labels.end(), piece.labels.begin(), piece.labels.end());
  }
  parallel_for(static_cast<int64_t>(places.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::copy(parsed->pieces[i].values.begin(), parsed->pieces[i].values.end(), places[i]);
      parsed->pieces[i] = {};
    }
  });
  // The same number may be written in several ways: 1, 1.0, 1.000e+00.
  std::vector<int64_t> merged;
  for (const std::string& written : parsed->classes) {
    const auto number = number_of(written);
    const std::string name = number ? fmt::format("{}", *number) : written;
    const auto found = std::find(table.class_names.begin(), table.class_names.end(), name);
    merged.push_back(found - table.class_names.begin());
    if (found == table.class_names.end()) table.class_names.push_back(name);
  }
  for (int64_t& one : labels) one = merged[static_cast<size_t>(one)];
  order_classes(table.class_names, labels);
  require_classes(table);
  table.labels = Tensor::from(labels, {rows});
  to_cache(path, format, table, say);
  return table;
}

}  // namespace bochner
