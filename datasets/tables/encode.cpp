#include "datasets/tables/encode.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/parallel.h"

namespace bochner {
namespace {

constexpr size_t kMostInputs = 100000;
constexpr int64_t kRowsAtOnce = 1024;

/// The encoding of one column of the file.
struct Coding {
  int64_t first = 0;           ///< place of its first column
  float mean = 0;              ///< which replaces missing numbers
  std::vector<int64_t> place;  ///< column of each category, -1 if no training row has it; empty: numbers
  int64_t missing = -1;        ///< column that marks gaps, -1 if there is none
};

/// The coding of column j, and the names of its new columns.
Coding coding_of(const TableSplit& train, const NumericTable& table, int64_t j, TableSplits& splits) {
  const std::string& name = table.columns[static_cast<size_t>(j)];
  const std::vector<std::string>& categories = table.categories[static_cast<size_t>(j)];
  const int64_t columns = train.features.size(1);
  const float* const x = train.features.data<float>() + j;
  Coding coding;
  coding.first = static_cast<int64_t>(splits.columns.size());
  std::vector<int64_t> counts(categories.size());
  double sum = 0;
  int64_t present = 0;
  for (int64_t i = 0; i < train.rows(); ++i) {
    const float value = x[i * columns];
    if (std::isnan(value)) continue;
    ++present;
    if (categories.empty()) {
      sum += value;
    } else {
      ++counts[static_cast<size_t>(value)];
    }
  }
  const auto add = [&](std::string column, bool as_it_is) {
    if (splits.columns.size() == kMostInputs) {
      fail("{}: column '{}' would make more than {} columns of 0 and 1; leave columns out", table.file, name,
           kMostInputs);
    }
    splits.columns.push_back(std::move(column));
    splits.as_they_are.push_back(as_it_is);
    return static_cast<int64_t>(splits.columns.size()) - 1;
  };
  if (categories.empty()) {
    coding.mean = present > 0 ? static_cast<float>(sum / static_cast<double>(present)) : 0;
    add(name, false);
  }
  for (size_t c = 0; c < categories.size(); ++c) {
    coding.place.push_back(counts[c] > 0 ? add(name + "=" + categories[c], true) : -1);
  }
  const int64_t gaps = train.rows() - present;
  if (gaps == 0) return coding;
  coding.missing = add(name + " is missing", true);
  splits.notes.push_back(
      categories.empty() ? fmt::format("'{}' is missing in {} of {} training rows: it becomes their mean {:g}, and a "
                                       "column of 0 and 1 marks these rows",
                                       name, gaps, train.rows(), coding.mean)
                         : fmt::format("'{}' is missing in {} of {} training rows, which is a category of its own",
                                       name, gaps, train.rows()));
  return coding;
}

/// What one column of a split has that the training rows do not.
struct Unseen {
  int64_t unknown = 0;  ///< rows whose category no training row has
  int64_t gaps = 0;     ///< rows without a value, where every training row has one
};

Tensor encoded(const Tensor& raw, const std::vector<Coding>& codings, int64_t inputs, std::vector<Unseen>& unseen) {
  const int64_t rows = raw.size(0);
  const auto columns = static_cast<int64_t>(codings.size());
  Tensor result = Tensor::zeros({rows, inputs});
  const float* const x = raw.data<float>();
  float* const y = result.data<float>();
  parallel_for(rows, kRowsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const Coding& coding = codings[static_cast<size_t>(j)];
        const float value = x[i * columns + j];
        float* const to = y + i * inputs;
        const bool gap = std::isnan(value);
        if (coding.place.empty()) to[coding.first] = gap ? coding.mean : value;
        if (gap && coding.missing >= 0) to[coding.missing] = 1;
        if (gap || coding.place.empty() || value < 0) continue;
        const int64_t place = coding.place[static_cast<size_t>(value)];
        if (place >= 0) to[place] = 1;
      }
    }
  });
  for (int64_t j = 0; j < columns; ++j) {
    const Coding& coding = codings[static_cast<size_t>(j)];
    Unseen& of = unseen[static_cast<size_t>(j)];
    for (int64_t i = 0; i < rows; ++i) {
      const float value = x[i * columns + j];
      if (std::isnan(value)) {
        of.gaps += coding.missing < 0 ? 1 : 0;
      } else if (!coding.place.empty() && (value < 0 || coding.place[static_cast<size_t>(value)] < 0)) {
        ++of.unknown;
      }
    }
  }
  return result;
}

}  // namespace

void encode(TableSplits& splits, const NumericTable& table) {
  if (!table.has_gaps &&
      std::all_of(table.categories.begin(), table.categories.end(), [](auto& c) { return c.empty(); })) {
    splits.columns = table.columns;
    splits.as_they_are.assign(table.columns.size(), false);
    return;
  }
  std::vector<Coding> codings;
  for (size_t j = 0; j < table.columns.size(); ++j) {
    codings.push_back(coding_of(splits.train, table, static_cast<int64_t>(j), splits));
  }
  const auto words = std::count_if(codings.begin(), codings.end(), [](auto& c) { return !c.place.empty(); });
  if (words > 0) {
    splits.notes.push_back(
        fmt::format("{} of {} columns hold categories; with a column of 0 and 1 for each category of "
                    "the training rows there are {}",
                    words, codings.size(), splits.columns.size()));
  }
  for (auto [split, name] :
       {std::pair{&splits.train, "training"}, {&splits.valid, "validation"}, {&splits.test, "test"}}) {
    std::vector<Unseen> unseen(codings.size());
    split->features = encoded(split->features, codings, static_cast<int64_t>(splits.columns.size()), unseen);
    for (size_t j = 0; j < codings.size(); ++j) {
      if (unseen[j].unknown > 0) {
        splits.notes.push_back(
            fmt::format("{} of {} {} rows hold a category of '{}' that no training row has: all "
                        "columns of it are 0 there",
                        unseen[j].unknown, split->rows(), name, table.columns[j]));
      }
      if (unseen[j].gaps > 0) {
        splits.notes.push_back(fmt::format(
            "'{}' is missing in {} of {} {} rows, but in no training row: {}", table.columns[j], unseen[j].gaps,
            split->rows(), name,
            codings[j].place.empty() ? "it becomes the mean of the training rows" : "all columns of it are 0 there"));
      }
    }
  }
}

void number_as(const NumericTable& train, NumericTable& test) {
  const int64_t columns = test.features.size(1);
  for (int64_t j = 0; j < columns; ++j) {
    const auto at = static_cast<size_t>(j);
    const std::vector<std::string>& known = train.categories[at];
    const std::vector<std::string>& own = test.categories[at];
    float* const x = test.features.data<float>() + j;
    const auto has_numbers = [&](const NumericTable& table) {
      const float* const values = table.features.data<float>() + j;
      for (int64_t i = 0; i < table.rows(); ++i) {
        if (!std::isnan(values[i * columns])) return table.categories[at].empty();
      }
      return false;
    };
    const bool differ = (!known.empty() && has_numbers(test)) || (!own.empty() && has_numbers(train));
    if (differ) {
      fail("{}: column '{}' holds {}, in {} it holds {}", test.file, train.columns[at],
           own.empty() ? "numbers" : "words", train.file, own.empty() ? "words" : "numbers");
    }
    if (own.empty()) continue;
    std::vector<float> place;
    for (const std::string& name : own) {
      const auto found = std::find(known.begin(), known.end(), name);
      const float stranger = known.empty() ? std::nanf("") : -1.F;  // train holds nothing but gaps
      place.push_back(found == known.end() ? stranger : static_cast<float>(found - known.begin()));
    }
    for (int64_t i = 0; i < test.rows(); ++i) {
      float& value = x[i * columns];
      if (!std::isnan(value)) value = place[static_cast<size_t>(value)];
    }
  }
  test.categories = train.categories;
}

}  // namespace bochner
