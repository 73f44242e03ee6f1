#include "datasets/tabular.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "engine/io/csv.h"
#include "engine/io/safetensors.h"

namespace bochner {
namespace {

constexpr const char* kCacheVersion = "1";
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
                       {"columns", joined(table.columns)}});
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

TableSplit rows_of(const NumericTable& table, int64_t begin, int64_t end) {
  return {table.features.slice(0, begin, end).contiguous(), table.labels.slice(0, begin, end).contiguous()};
}

/// Refuses rows of classes that training has not seen; `begin` is the place of the split in its file.
void require_known(const TableSplit& train, const TableSplit& other, const NumericTable& table, int64_t begin,
                   const char* split) {
  std::vector<bool> known(table.class_names.size());
  for (const int64_t label : train.labels.to_vector<int64_t>()) known[static_cast<size_t>(label)] = true;
  const std::vector<int64_t> labels = other.labels.to_vector<int64_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    if (known[static_cast<size_t>(labels[i])]) continue;
    fail("{}: row {}: class '{}' of the {} split never comes in the training rows; a model can not know it", table.file,
         table.first_row + begin + static_cast<int64_t>(i), table.class_names[static_cast<size_t>(labels[i])], split);
  }
}

/// Mean 0 and deviation 1 of each column over the training rows, in all splits.
void standardise(TableSplits& splits) {
  const int64_t columns = splits.train.features.size(1);
  const int64_t rows = splits.train.rows();
  const float* const x = splits.train.features.data<float>();
  std::vector<double> mean(static_cast<size_t>(columns));
  std::vector<double> square(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) mean[static_cast<size_t>(j)] += x[i * columns + j];
  }
  for (double& value : mean) value /= static_cast<double>(rows);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const double rest = x[i * columns + j] - mean[static_cast<size_t>(j)];
      square[static_cast<size_t>(j)] += rest * rest;
    }
  }
  for (int64_t j = 0; j < columns; ++j) {
    const double deviation = std::sqrt(square[static_cast<size_t>(j)] / static_cast<double>(rows));
    splits.mean.push_back(static_cast<float>(mean[static_cast<size_t>(j)]));
    splits.scale.push_back(deviation > 0 ? static_cast<float>(deviation) : 1.F);
  }
  for (const TableSplit* split : {&splits.train, &splits.valid, &splits.test}) {
    float* const values = split->features.data<float>();
    for (int64_t i = 0; i < split->rows(); ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<size_t>(j);
        values[i * columns + j] = (values[i * columns + j] - splits.mean[at]) / splits.scale[at];
      }
    }
  }
}

void require_rows(const std::string& file, int64_t rows, int64_t train, int64_t valid) {
  if (train < 1 || valid < 1 || rows - train - valid < 1) {
    fail("{}: {} rows can not be split into {} for training, {} for validation and at least 1 for testing", file, rows,
         train, valid);
  }
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
  std::vector<float> features;
  std::vector<int64_t> labels;
  std::map<std::string, int64_t, std::less<>> classes;
  int label = -1;
  while (reader.next()) {
    if (label < 0) label = label_column(reader, format, reader.size());
    for (int column = 0; column < reader.size(); ++column) {
      if (column == label) continue;
      const double value = reader.number(column);
      if (!std::isfinite(value)) reader.fail_in(column, "{} is no finite number; mend or drop the row", value);
      features.push_back(static_cast<float>(value));
    }
    const std::string_view text = trimmed(reader[label]);
    if (text.empty()) reader.fail_in(label, "the label is empty");
    auto found = classes.find(text);
    if (found == classes.end()) {
      if (classes.size() == 10000) reader.fail_in(label, "more than 10,000 classes; is this the label column?");
      found = classes.emplace(text, static_cast<int64_t>(classes.size())).first;
    }
    labels.push_back(found->second);
  }
  if (labels.empty()) fail("{}: row {}: no rows of data; the file is empty", table.file, table.first_row);
  const auto rows = static_cast<int64_t>(labels.size());
  const auto columns = static_cast<int64_t>(features.size()) / rows;
  if (columns < 1) fail("{}: row {}: no column but the label's", table.file, table.first_row);
  if (classes.size() < 2)
    fail("{}: all rows are of class '{}'; at least 2 classes are needed", table.file, classes.begin()->first);
  // The same number may be written in several ways: 1, 1.0, 1.000e+00.
  table.class_names.resize(classes.size());
  for (const auto& [name, index] : classes) {
    const auto number = number_of(name);
    table.class_names[static_cast<size_t>(index)] = number ? fmt::format("{}", *number) : name;
  }
  std::vector<std::string> distinct;
  std::vector<int64_t> merged;
  for (const std::string& name : table.class_names) {
    const auto found = std::find(distinct.begin(), distinct.end(), name);
    merged.push_back(found - distinct.begin());
    if (found == distinct.end()) distinct.push_back(name);
  }
  for (int64_t& one : labels) one = merged[static_cast<size_t>(one)];
  table.class_names = distinct;
  order_classes(table.class_names, labels);
  table.features = Tensor::from(features, {rows, columns});
  table.labels = Tensor::from(labels, {rows});
  to_cache(path, format, table, say);
  return table;
}

TableSplits split_in_order(const NumericTable& table, int64_t train, int64_t valid, std::string rule) {
  require_rows(table.file, table.rows(), train, valid);
  TableSplits splits;
  splits.train = rows_of(table, 0, train);
  splits.valid = rows_of(table, train, train + valid);
  splits.test = rows_of(table, train + valid, table.rows());
  splits.classes = static_cast<int64_t>(table.class_names.size());
  splits.rule = std::move(rule);
  require_known(splits.train, splits.valid, table, train, "validation");
  require_known(splits.train, splits.test, table, train + valid, "test");
  standardise(splits);
  return splits;
}

TableSplits split_at_random(const NumericTable& table, double valid_share, double test_share, uint64_t seed) {
  Generator generator(seed);
  const std::vector<int64_t> order = permutation(table.rows(), generator).to_vector<int64_t>();
  const int64_t columns = table.features.size(1);
  NumericTable shuffled = table;
  shuffled.features = Tensor::empty(table.features.shape());
  shuffled.labels = Tensor::empty(table.labels.shape(), DType::i64);
  for (int64_t i = 0; i < table.rows(); ++i) {
    const int64_t from = order[static_cast<size_t>(i)];
    std::memcpy(shuffled.features.data<float>() + i * columns, table.features.data<float>() + from * columns,
                static_cast<size_t>(columns) * sizeof(float));
    shuffled.labels.data<int64_t>()[i] = table.labels.data<int64_t>()[from];
  }
  const auto share = [&](double part) {
    return std::max<int64_t>(1, std::llround(part * static_cast<double>(table.rows())));
  };
  const int64_t valid = share(valid_share);
  return split_in_order(
      shuffled, table.rows() - valid - share(test_share), valid,
      fmt::format("at random, seed {}: {:g} for validation, {:g} for testing", seed, valid_share, test_share));
}

TableSplits split_of_files(const NumericTable& train, int64_t valid, const NumericTable& test, std::string rule) {
  if (train.features.size(1) != test.features.size(1)) {
    fail("{}: {} columns beside the label, {} has {}; both files must be of one kind", test.file, test.features.size(1),
         train.file, train.features.size(1));
  }
  require_rows(train.file, train.rows() + 1, train.rows() - valid, valid);
  TableSplits splits;
  splits.train = rows_of(train, 0, train.rows() - valid);
  splits.valid = rows_of(train, train.rows() - valid, train.rows());
  splits.test = rows_of(test, 0, test.rows());
  for (int64_t i = 0; i < test.rows(); ++i) {  // the same class may have another number there
    int64_t& label = splits.test.labels.data<int64_t>()[i];
    const std::string& name = test.class_names[static_cast<size_t>(label)];
    const auto found = std::find(train.class_names.begin(), train.class_names.end(), name);
    if (found == train.class_names.end()) {
      fail("{}: row {}: class '{}' never comes in {}; a model can not know it", test.file, test.first_row + i, name,
           train.file);
    }
    label = found - train.class_names.begin();
  }
  splits.classes = static_cast<int64_t>(train.class_names.size());
  splits.rule = std::move(rule);
  require_known(splits.train, splits.valid, train, splits.train.rows(), "validation");
  NumericTable known = test;
  known.class_names = train.class_names;
  require_known(splits.train, splits.test, known, 0, "test");
  standardise(splits);
  return splits;
}

namespace uci {

TableSplits covertype(const std::filesystem::path& file, const Say& say) {
  const NumericTable table = read_table(file, {}, say);
  constexpr int64_t kTrain = 11340;
  constexpr int64_t kValid = 3780;
  return split_in_order(
      table, kTrain, kValid,
      fmt::format("official: 11,340 for training, 3,780 for validation, {} for testing{}",
                  table.rows() - kTrain - kValid, table.rows() == 581012 ? "" : "; the whole file has 581,012 rows"));
}

TableSplits higgs(const std::filesystem::path& file, const Say& say) {
  const NumericTable table = read_table(file, {.label = "0"}, say);
  const bool whole = table.rows() == 11000000;
  const int64_t part = whole ? 500000 : table.rows() / 10;
  return split_in_order(table, table.rows() - 2 * part, part,
                        whole ? "official: the last 500,000 test, the 500,000 before them validate"
                              : "not the official file: the last tenth tests, the tenth before it validates");
}

TableSplits hepmass(const std::filesystem::path& train, const std::filesystem::path& test, const Say& say) {
  const TableFormat format{.header = true, .label = "0"};
  const NumericTable first = read_table(train, format, say);
  const NumericTable second = read_table(test, format, say);
  return split_of_files(first, first.rows() / 10, second, "official files; the last tenth of training validates");
}

}  // namespace uci

TableLoader::TableLoader(const TableSplit& split, int64_t batch, uint64_t seed, bool shuffle)
    : split_(split), batch_(std::min(batch, split.rows())), seed_(seed), shuffle_(shuffle) {
  if (batch < 1) fail("table: batches of {} rows; at least 1", batch);
}

int64_t TableLoader::steps_per_epoch() const {
  return shuffle_ ? split_.rows() / batch_ : (split_.rows() + batch_ - 1) / batch_;
}

void TableLoader::restore(Position position) {
  if (position.epoch < 0 || position.step < 0 || position.step >= steps_per_epoch()) {
    fail("table: step {} of epoch {} lies outside the {} steps of an epoch", position.step, position.epoch,
         steps_per_epoch());
  }
  position_ = position;
}

TableBatch TableLoader::next() {
  if (ordered_ != position_.epoch) {
    if (shuffle_) {
      Generator generator = Generator(seed_).fork(static_cast<uint64_t>(position_.epoch));
      order_ = permutation(split_.rows(), generator).to_vector<int64_t>();
    } else {
      order_.resize(static_cast<size_t>(split_.rows()));
      std::iota(order_.begin(), order_.end(), int64_t{0});
    }
    ordered_ = position_.epoch;
  }
  const int64_t begin = position_.step * batch_;
  const int64_t end = std::min(split_.rows(), begin + batch_);
  const int64_t columns = split_.features.size(1);
  TableBatch batch;
  batch.rows.assign(order_.begin() + begin, order_.begin() + end);
  batch.x = Tensor::empty({end - begin, columns});
  batch.labels = Tensor::empty({end - begin}, DType::i64);
  for (int64_t i = 0; i < end - begin; ++i) {
    const int64_t row = batch.rows[static_cast<size_t>(i)];
    std::memcpy(batch.x.data<float>() + i * columns, split_.features.data<float>() + row * columns,
                static_cast<size_t>(columns) * sizeof(float));
    batch.labels.data<int64_t>()[i] = split_.labels.data<int64_t>()[row];
  }
  if (++position_.step == steps_per_epoch()) position_ = {position_.epoch + 1, 0};
  return batch;
}

}  // namespace bochner
