#include "datasets/tables/tabular.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "datasets/tables/encode.h"
#include "engine/ops/index.h"

namespace bochner {
namespace {

TableSplit rows_of(const NumericTable& table, int64_t begin, int64_t end) {
  TableSplit split{table.features.slice(0, begin, end).contiguous(), table.labels.slice(0, begin, end).contiguous()};
  split.first = begin;
  if (!table.order.empty()) split.order.assign(table.order.begin() + begin, table.order.begin() + end);
  return split;
}

/// Refuses rows with classes that no training row has; `begin` is the place of the split in its file.
void require_known(const TableSplit& train, const TableSplit& other, const NumericTable& table, int64_t begin,
                   const char* split) {
  std::vector<bool> known(table.class_names.size());
  for (const int64_t label : train.labels.to_vector<int64_t>()) known[static_cast<size_t>(label)] = true;
  const std::vector<int64_t> labels = other.labels.to_vector<int64_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    if (known[static_cast<size_t>(labels[i])]) continue;
    fail("{}: class '{}' of the {} split never occurs in the training rows; a model cannot know it",
         table.place_of_label(begin + static_cast<int64_t>(i)), table.class_names[static_cast<size_t>(labels[i])],
         split);
  }
}

/// Each number x of column i becomes change(x, i).
template <class Change>
void change_columns(TableSplits& splits, const Change& change) {
  for (const TableSplit* split : {&splits.train, &splits.valid, &splits.test}) {
    const int64_t columns = split->features.size(1);
    float* const values = split->features.data<float>();
    for (int64_t i = 0; i < split->rows(); ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        float& value = values[i * columns + j];
        value = change(value, static_cast<size_t>(j));
      }
    }
  }
}

/// Shifts and scales each column of all splits to mean 0 and deviation 1 over the training rows, except columns of
/// `as_they_are`.
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
    if (splits.as_they_are[static_cast<size_t>(j)]) {
      splits.mean.push_back(0);
      splits.scale.push_back(1);
      continue;
    }
    const double deviation = std::sqrt(square[static_cast<size_t>(j)] / static_cast<double>(rows));
    splits.mean.push_back(static_cast<float>(mean[static_cast<size_t>(j)]));
    splits.scale.push_back(deviation > 0 ? static_cast<float>(deviation) : 1.F);
  }
  change_columns(splits, [&](float value, size_t at) { return (value - splits.mean[at]) / splits.scale[at]; });
}

void require_rows(const std::string& file, int64_t rows, int64_t train, int64_t valid) {
  if (train < 1 || valid < 1 || rows - train - valid < 1) {
    fail("{}: {} rows cannot be split into {} for training, {} for validation and at least 1 for testing", file, rows,
         train, valid);
  }
}

}  // namespace

void standardise_by(TableSplits& splits, const std::vector<float>& mean, const std::vector<float>& scale) {
  BOCHNER_ASSERT(mean.size() == splits.mean.size() && scale.size() == splits.scale.size());
  change_columns(splits, [&](float value, size_t at) {
    return (value * splits.scale[at] + splits.mean[at] - mean[at]) / scale[at];
  });
  splits.mean = mean;
  splits.scale = scale;
}

std::string NumericTable::place_of_label(int64_t i) const {
  const int64_t number = order.empty() ? i : order[static_cast<size_t>(i)];
  return fmt::format("{}: row {} column {}", file, first_row + number, label_column + 1);
}

TableSplits split_in_order(NumericTable&& table, int64_t train, int64_t valid, std::string rule) {
  require_rows(table.file, table.rows(), train, valid);
  TableSplits splits;
  splits.train = rows_of(table, 0, train);
  splits.valid = rows_of(table, train, train + valid);
  splits.test = rows_of(table, train + valid, table.rows());
  splits.classes = static_cast<int64_t>(table.class_names.size());
  splits.class_names = table.class_names;
  splits.rule = std::move(rule);
  require_known(splits.train, splits.valid, table, train, "validation");
  require_known(splits.train, splits.test, table, train + valid, "test");
  encode(splits, table);
  standardise(splits);
  return splits;
}

TableSplits split_at_random(const NumericTable& table, double valid_share, double test_share, uint64_t seed) {
  Generator generator(seed);
  const Tensor order = permutation(table.rows(), generator);
  NumericTable shuffled = table;
  shuffled.features = take(table.features, order);
  shuffled.labels = take(table.labels, order);
  shuffled.order = order.to_vector<int64_t>();
  const auto share = [&](double part) {
    return std::max<int64_t>(1, std::llround(part * static_cast<double>(table.rows())));
  };
  const int64_t valid = share(valid_share);
  return split_in_order(
      std::move(shuffled), table.rows() - valid - share(test_share), valid,
      fmt::format("at random, seed {}: {:g} for validation, {:g} for testing", seed, valid_share, test_share));
}

TableSplits split_of_files(NumericTable&& train, int64_t valid, NumericTable&& test, std::string rule) {
  if (train.features.size(1) != test.features.size(1)) {
    fail("{}: {} columns beside the label, {} has {}; both files must have the same columns", test.file,
         test.features.size(1), train.file, train.features.size(1));
  }
  require_rows(train.file, train.rows() + 1, train.rows() - valid, valid);
  number_as(train, test);
  TableSplits splits;
  splits.train = rows_of(train, 0, train.rows() - valid);
  splits.valid = rows_of(train, train.rows() - valid, train.rows());
  splits.test = rows_of(test, 0, test.rows());
  for (int64_t i = 0; i < test.rows(); ++i) {  // the same class may have another number there
    int64_t& label = splits.test.labels.data<int64_t>()[i];
    const std::string& name = test.class_names[static_cast<size_t>(label)];
    const auto found = std::find(train.class_names.begin(), train.class_names.end(), name);
    if (found == train.class_names.end()) {
      fail("{}: class '{}' never occurs in {}; a model cannot know it", test.place_of_label(i), name, train.file);
    }
    label = found - train.class_names.begin();
  }
  splits.classes = static_cast<int64_t>(train.class_names.size());
  splits.class_names = train.class_names;
  splits.rule = std::move(rule);
  require_known(splits.train, splits.valid, train, splits.train.rows(), "validation");
  NumericTable known = test;
  known.class_names = train.class_names;
  require_known(splits.train, splits.test, known, 0, "test");
  train.has_gaps = train.has_gaps || test.has_gaps;
  encode(splits, train);
  standardise(splits);
  return splits;
}

namespace uci {
namespace {

struct Published {
  int64_t rows, columns, classes;
};

/// An Error if the file is another one; a remark if it is only a part, else empty.
std::string compared(const NumericTable& table, const Published& published) {
  const int64_t columns = table.features.size(1);
  const auto classes = std::ssize(table.class_names);
  if (columns != published.columns || classes > published.classes || table.rows() > published.rows) {
    fail("{}: {} rows of {} columns and a label of {} classes; the published file has {} of {} and {}", table.file,
         table.rows(), columns, classes, published.rows, published.columns, published.classes);
  }
  if (table.rows() == published.rows) return "";
  return fmt::format("{} holds {} of the {} published rows", std::filesystem::path(table.file).filename().string(),
                     table.rows(), published.rows);
}

TableSplits with_remarks(TableSplits&& splits, const std::vector<std::string>& remarks) {
  for (const std::string& remark : remarks) {
    if (!remark.empty()) splits.remarks.push_back(remark);
  }
  return std::move(splits);
}

}  // namespace

TableSplits covertype(const std::filesystem::path& file, const Say& say) {
  NumericTable table = read_table(file, {}, say);
  const std::string remark = compared(table, {581012, 54, 7});
  constexpr int64_t kTrain = 11340;
  constexpr int64_t kValid = 3780;
  std::string rule = fmt::format("official: 11,340 for training, 3,780 for validation, {} for testing",
                                 table.rows() - kTrain - kValid);
  return with_remarks(split_in_order(std::move(table), kTrain, kValid, std::move(rule)), {remark});
}

TableSplits higgs(const std::filesystem::path& file, const Say& say) {
  NumericTable table = read_table(file, {.label = "0"}, say);
  const std::string remark = compared(table, {11000000, 28, 2});
  const bool whole = remark.empty();
  const int64_t part = whole ? 500000 : table.rows() / 10;
  const int64_t first = table.rows() - 2 * part;
  return with_remarks(
      split_in_order(std::move(table), first, part,
                     whole ? "official: the last 500,000 test, the 500,000 before them validate"
                           : "not the official file: the last tenth tests, the tenth before it validates"),
      {remark});
}

TableSplits hepmass(const std::filesystem::path& train, const std::filesystem::path& test, const Say& say) {
  const TableFormat format{.header = true, .label = "0"};
  NumericTable first = read_table(train, format, say);
  NumericTable second = read_table(test, format, say);
  const int64_t columns = first.features.size(1) == 27 ? 27 : 28;  // without and with the mass
  const std::vector<std::string> remarks = {compared(first, {7000000, columns, 2}),
                                            compared(second, {3500000, columns, 2})};
  const int64_t valid = first.rows() / 10;
  return with_remarks(split_of_files(std::move(first), valid, std::move(second),
                                     "official files; the last tenth of training validates"),
                      remarks);
}

TableSplits adult(const std::filesystem::path& train, const std::filesystem::path& test, const Say& say) {
  TableFormat format{.words = true, .missing = {"?"}, .comment = '|', .label_ends_in_stop = true};
  format.names = {
      "age",          "workclass", "fnlwgt", "education",    "education-num", "marital-status", "occupation",
      "relationship", "race",      "sex",    "capital-gain", "capital-loss",  "hours-per-week", "native-country",
      "income"};
  NumericTable first = read_table(train, format, say);
  NumericTable second = read_table(test, format, say);
  const std::vector<std::string> remarks = {compared(first, {32561, 14, 2}), compared(second, {16281, 14, 2})};
  const int64_t valid = first.rows() / 10;
  return with_remarks(split_of_files(std::move(first), valid, std::move(second),
                                     "official files; the last tenth of training validates"),
                      remarks);
}

}  // namespace uci

TableLoader::TableLoader(const TableSplit& split, int64_t batch, uint64_t seed, bool shuffle)
    : split_(split), batch_(std::min(batch, split.rows())), seed_(seed), shuffle_(shuffle) {
  if (batch < 1) fail("table: batches of {} rows; at least 1", batch);
}

int64_t TableLoader::steps_per_epoch() const {
  return shuffle_ ? split_.rows() / batch_ : ceil_div(split_.rows(), batch_);
}

TableBatch TableLoader::next() {
  const int64_t epoch = step_ / steps_per_epoch();
  if (ordered_ != epoch) {
    if (shuffle_) {
      Generator generator = Generator(seed_).fork(static_cast<uint64_t>(epoch));
      order_ = permutation(split_.rows(), generator).to_vector<int64_t>();
    } else {
      order_.resize(static_cast<size_t>(split_.rows()));
      std::iota(order_.begin(), order_.end(), int64_t{0});
    }
    ordered_ = epoch;
  }
  const int64_t begin = step_++ % steps_per_epoch() * batch_;
  const int64_t end = std::min(split_.rows(), begin + batch_);
  TableBatch batch;
  batch.rows.assign(order_.begin() + begin, order_.begin() + end);
  const Tensor rows = Tensor::from(batch.rows, {end - begin});
  batch.x = take(split_.features, rows);
  batch.labels = take(split_.labels, rows);
  return batch;
}

}  // namespace bochner
