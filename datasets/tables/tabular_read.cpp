// Reading a table from its text or from the cache beside it.
#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>

#include "datasets/tables/any_rows.h"
#include "datasets/tables/tabular.h"
#include "datasets/tokenizers/utf8.h"
#include "engine/io/csv.h"
#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/rows.h"
#include "engine/io/safetensors.h"
#include "engine/parallel.h"

namespace bochner {
namespace {

using namespace tables;  // NOLINT: one reader in two files

constexpr const char* kCacheVersion = "5";
constexpr const char* kCacheSuffix = ".bochner-cache";

/// Whether the file may be read as numbers alone, whatever is to be done with words in it.
bool is_plain(const TableFormat& format) {
  const bool gaps_are_words = std::none_of(format.missing.begin(), format.missing.end(), number_of);
  return (!format.words || gaps_are_words) && format.categories.empty() && format.leave_out.empty() &&
         format.comment == 0 && !format.label_ends_in_stop;
}

/// What a cache must agree with: the file it was made from, as it is now, and how it was read.
std::string stamp_of(const std::filesystem::path& path, const TableFormat& format) {
  std::error_code error;  // reported when the file is opened
  const auto time = std::filesystem::last_write_time(path, error).time_since_epoch().count();
  std::string missing;
  for (const std::string& sign : format.missing) missing.append(1, ' ').append(shown(sign));
  return fmt::format("{} {} {} {} {} {} {}{}", kCacheVersion, std::filesystem::file_size(path, error), time,
                     format.header, static_cast<int>(format.separator), format.label, format.words,
                     format.words ? missing : "");
}

/// Whether joined() and parted() give them back.
bool have_no_line_end(const std::vector<std::string>& names) {
  return std::none_of(names.begin(), names.end(), [](auto& name) { return name.find('\n') != std::string::npos; });
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

std::optional<NumericTable> from_cache(const std::filesystem::path& path, const TableFormat& format,
                                       const std::string& stamp, const Say& say) {
  const std::filesystem::path cache = path.string() + kCacheSuffix;
  if (!format.cache || !is_plain(format) || !std::filesystem::exists(cache)) return std::nullopt;
  try {
    const Safetensors stored = read_safetensors(cache);
    if (stored.metadata.at("stamp") != stamp) return std::nullopt;
    NumericTable table;
    table.file = path.string();
    table.features = stored.tensors.at("features");
    table.labels = stored.tensors.at("labels").cast(DType::i64);
    table.class_names = parted(stored.metadata.at("classes"));
    table.columns = parted(stored.metadata.at("columns"));
    table.categories.resize(table.columns.size());
    table.first_row = format.header ? 2 : 1;
    table.label_column = std::stoll(stored.metadata.at("label"));
    table.from_cache = true;
    table.source = {path.string(), std::stoll(stored.metadata.at("bytes")), stored.metadata.at("sha256")};
    const auto classes = static_cast<int64_t>(table.class_names.size());
    const bool fits = table.features.rank() == 2 && table.features.dtype() == DType::f32 &&
                      table.features.size(1) == static_cast<int64_t>(table.columns.size()) &&
                      table.labels.rank() == 1 && table.labels.size(0) == table.features.size(0);
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

/// `stamp` is from before the file was read.
void to_cache(const std::filesystem::path& path, const TableFormat& format, const std::string& stamp,
              const NumericTable& table, const Say& say) {
  const bool numbers = !table.has_gaps &&
                       std::all_of(table.categories.begin(), table.categories.end(), [](auto& c) { return c.empty(); });
  if (!format.cache || !is_plain(format) || !numbers) return;
  if (!have_no_line_end(table.class_names) || !have_no_line_end(table.columns)) return;
  const std::string cache = path.string() + kCacheSuffix;
  try {
    if (stamp_of(path, format) != stamp) fail("the file changed while it was read");
    AtomicFile file(cache, Links::replaced);
    write_safetensors(file, {{"features", table.features}, {"labels", table.labels.cast(DType::i32)}},
                      {{"stamp", stamp},
                       {"classes", joined(table.class_names)},
                       {"columns", joined(table.columns)},
                       {"label", fmt::format("{}", table.label_column)},
                       {"bytes", fmt::format("{}", table.source.bytes)},
                       {"sha256", table.source.sha256}});
    file.commit();
  } catch (const Error& error) {
    if (say) say(fmt::format("no cache beside {}: {}", path.string(), error.what()));
  }
}

/// Refuses names, words and classes that are not UTF-8: checkpoints and records of runs hold them as text.
void require_utf8(const NumericTable& table) {
  const auto check = [&](const std::string& text, const std::string& where) {
    for (std::string_view rest = text; !rest.empty();) {
      const unicode::Decoded next = unicode::decode(rest);
      if (!next.valid)
        fail("{}: {}: {} is not UTF-8; convert the file, such as from Latin-1: iconv -f LATIN1 -t UTF-8", table.file,
             where, shown(text));
      rest.remove_prefix(next.bytes);
    }
  };
  for (const std::string& name : table.columns) check(name, "row 1, the name of a column");
  for (const std::string& name : table.class_names) check(name, fmt::format("column {}", table.label_column + 1));
  for (size_t j = 0; j < table.categories.size(); ++j) {
    for (const std::string& word : table.categories[j]) check(word, fmt::format("column '{}'", table.columns[j]));
  }
}

/// Refuses a label that is a measurement: many classes, some of which are not whole numbers.
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

/// Reads with several threads, if the file is plain enough for that (engine/io/rows.h).
std::optional<Parsed> parse_plain(const std::filesystem::path& path, const TableFormat& format,
                                  const std::vector<std::string>& names) {
  if (!is_plain(format)) return std::nullopt;
  PlainRowsOptions options{.separator = format.separator, .header = format.header, .max_classes = kMostClasses};
  options.fields = static_cast<int64_t>(names.size());
  if (const auto number = number_of(format.label); number && *number == std::floor(*number)) {
    options.label = static_cast<int64_t>(*number);
  } else {
    options.label = std::find(names.begin(), names.end(), format.label) - names.begin();
    // No column of that name, or several: the other way of reading reports it.
    if (std::count(names.begin(), names.end(), format.label) != 1) return std::nullopt;
  }
  PlainRowsResult found;
  const std::unique_ptr<ByteSource> source = open_unpacked(path);
  if (!read_plain_rows(*source, options, found) || found.rows == 0) return std::nullopt;
  Parsed result;
  result.pieces = std::move(found.pieces);
  result.rows = found.rows;
  result.classes = std::move(found.classes);
  result.label = options.label;
  return result;
}

NumericTable parse_table(const std::filesystem::path& path, const TableFormat& format) {
  NumericTable table;
  table.file = path.string();
  table.first_row = format.header ? 2 : 1;
  const std::vector<std::string> names = format.header ? opened(path, format).header() : format.names;
  std::optional<Parsed> parsed = parse_plain(path, format, names);
  const auto is_gap = [&](const std::string& name) {
    return std::find(format.missing.begin(), format.missing.end(), name) != format.missing.end();
  };
  const auto is_refused = [&](const std::string& name) { return is_nan(name) || (format.words && is_gap(name)); };
  // The other way of reading names the row.
  if (!parsed || std::any_of(parsed->classes.begin(), parsed->classes.end(), is_refused)) {
    parsed = parse_any(path, format);
  }
  if (parsed->first_row > 0) table.first_row = parsed->first_row;
  if (parsed->rows == 0) {
    fail("{}: row {}: no rows of data; {}", table.file, table.first_row,
         format.header && table.first_row > 1 ? "there are only the names of the columns" : "the file is empty");
  }
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
  table.has_gaps = parsed->has_gaps;
  table.categories = std::move(parsed->categories);
  table.categories.resize(static_cast<size_t>(columns));
  if (parsed->columns.empty()) {
    for (int64_t column = 0; column <= columns; ++column) {
      if (column != table.label_column) parsed->columns.push_back(static_cast<int>(column));
    }
  }
  for (const int column : parsed->columns) {
    const auto at = static_cast<size_t>(column);
    table.columns.push_back(at < names.size() ? names[at] : fmt::format("column {}", column + 1));
  }
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
    const std::string name = number ? fmt::format("{}", *number + 0.0) : written;  // + 0.0: -0 is 0
    const auto found = std::find(table.class_names.begin(), table.class_names.end(), name);
    merged.push_back(found - table.class_names.begin());
    if (found == table.class_names.end()) table.class_names.push_back(name);
  }
  for (int64_t& one : labels) one = merged[static_cast<size_t>(one)];
  const std::vector<int64_t> place = put_in_order(table.class_names);
  for (int64_t& one : labels) one = place[static_cast<size_t>(one)];
  require_classes(table);
  require_utf8(table);
  table.labels = Tensor::from(labels, {rows});
  return table;
}

}  // namespace

NumericTable read_table(const std::filesystem::path& path, const TableFormat& format, const Say& say) {
  const std::string stamp = stamp_of(path, format);
  std::optional<NumericTable> table = from_cache(path, format, stamp, say);
  if (!table) {
    const DataLog text;  // what is read from the cache later comes from this text
    table = parse_table(path, format);
    table->source = text.reads().back();
    to_cache(path, format, stamp, *table, say);
  }
  DataLog::add(table->source);
  return std::move(*table);
}

}  // namespace bochner
