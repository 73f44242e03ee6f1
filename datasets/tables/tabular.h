// Tables of numbers with a class: the UCI sets of SNNK 4.5, and any CSV file.
//
//   const TableSplits data = uci::covertype("data/covtype.data.gz", say);   // official split, standardised
//   TableLoader loader(data.train, 1024, seed);
//   const TableBatch batch = loader.next();                                  // x (1024, 54), labels (1024)
//
// A file is read row by row into f32 rows, which are kept beside it in `FILE.bochner-cache` (safetensors with hashes;
// engine/io/safetensors.h), so that a second start reads numbers instead of text. The cache records the file's size and
// time, and is made again if they differ. If the folder cannot be written to, or the file changes while it is read,
// there is no cache.
//
// Columns of words and missing values become numbers by the rules of encode.h, if TableFormat::words allows them.
//
// Errors name file, row and column: a ragged row, text or NaN in a number field, a class in another split that no
// training row has, a missing label column, an empty file, a truncated gzip file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/say.h"
#include "engine/io/data_log.h"
#include "engine/random.h"
#include "engine/tensor.h"

namespace bochner {

struct TableFormat {
  bool header = false;
  char separator = ',';
  /// The label: the name of a column (with a header), or its number from 0; from -1 counted from the end.
  std::string label = "-1";
  bool cache = true;

  // For tables of more than numbers. A field is missing if it is empty or one of `missing`. A column of words is
  // categorical. One that holds both numbers and words is refused, naming the row, unless it is listed in `categories`.
  bool words = false;
  std::vector<std::string> missing = {"?", "NA"};
  std::vector<std::string> categories = {};  ///< columns, by name or number, whose numbers are names, such as postcodes
  std::vector<std::string> leave_out = {};   ///< columns that are not read
  std::vector<std::string> names = {};       ///< of the columns of a file without a header
  char comment = 0;                          ///< lines that begin with this are skipped; 0: none
  bool label_ends_in_stop = false;           ///< a full stop at the end of a label is not part of it
  std::string options = {};                  ///< prefix of these options' names in advice; empty: no user can set them
};

/// A file as it was read. Labels are numbered in the order of class_names: by value if all are numbers, otherwise
/// alphabetically.
struct NumericTable {
  std::string file;
  Tensor features;                       ///< f32 (rows, columns)
  Tensor labels;                         ///< i64 (rows)
  std::vector<std::string> class_names;  ///< as written, numbers in their shortest form
  std::vector<std::string> columns;      ///< without the label's; `column 3`, from 1, where they have no name
  /// Of each column: empty for numbers; else its values are places in these names, which are in the order of classes.
  std::vector<std::vector<std::string>> categories;
  bool has_gaps = false;       ///< there are missing values, which are NaN
  int64_t first_row = 1;       ///< row of the file, from 1, that the first example stands in
  int64_t label_column = 0;    ///< of the file, from 0
  std::vector<int64_t> order;  ///< example i was number order[i] in the file; empty: i
  bool from_cache = false;
  DataRead source{};  ///< the text that the numbers come from, with or without a cache

  int64_t rows() const { return features.size(0); }
  /// `FILE: row R column C` of the label of example i, rows and columns from 1.
  std::string place_of_label(int64_t i) const;
};

NumericTable read_table(const std::filesystem::path& path, const TableFormat& format = {}, const Say& say = {});

/// Rows of one split.
struct TableSplit {
  Tensor features;               ///< f32 (rows, columns)
  Tensor labels;                 ///< i64 (rows)
  int64_t first = 0;             ///< the number of row 0 among the rows of data of its file, from 0; the others follow,
  std::vector<int64_t> order{};  ///< unless the numbers of all are here
  int64_t rows() const { return features.size(0); }
  int64_t number_of(int64_t row) const { return order.empty() ? first + row : order[static_cast<size_t>(row)]; }
};

struct TableSplits {
  TableSplit train, valid, test;
  int64_t classes = 0;
  std::vector<std::string> class_names;  ///< in the order of their numbers, if the file gives names
  std::string rule;                      ///< how it was split, in words
  std::vector<std::string> columns;      ///< names of the features, as encode.h makes them of the file's columns
  std::vector<bool> as_they_are;         ///< for each: encode.h made it of 0 and 1, and it is not standardised
  std::vector<std::string> notes;        ///< on what was missing or unknown, for messages
  std::vector<std::string> remarks;  ///< to report with every result, such as how many of the published rows these are
  std::vector<float> mean;   ///< of each column over the training rows, which was subtracted; 0 of columns as they are
  std::vector<float> scale;  ///< its standard deviation, which was divided by; 1 where it is 0
};

/// Standardises the rows by the given mean and scale, those of the rows that a model was trained on, instead of their
/// own.
void standardise_by(TableSplits& splits, const std::vector<float>& mean, const std::vector<float>& scale);

/// Splits into rows [0, train), the `valid` rows after them, and the rest, and standardises them by mean and deviation
/// of the training rows. The table's own rows become the splits', without a copy. An Error names the first row whose
/// class no training row has.
TableSplits split_in_order(NumericTable&& table, int64_t train, int64_t valid, std::string rule);
/// The same for a copy of the rows, in a random order that depends on the seed.
TableSplits split_at_random(const NumericTable& table, double valid_share, double test_share, uint64_t seed);
/// Training rows from one file (its last `valid` ones for validation), test rows from another.
TableSplits split_of_files(NumericTable&& train, int64_t valid, NumericTable&& test, std::string rule);

namespace uci {

// An Error if a file has other columns or classes than the published one, or more rows; fewer rows give a remark.

/// Covertype (Blackard & Dean, 1999): 54 integers, class 1 ... 7 last, no header. Official split: 11,340 rows for
/// training, 3,780 for validation, the rest (565,892 of the whole file) for testing.
TableSplits covertype(const std::filesystem::path& file, const Say& say = {});
/// HIGGS (Baldi, Sadowski, Whiteson, 2014): label first, 28 features, no header, the last 500,000 of 11,000,000 rows
/// are for testing; the 500,000 before them for validation. Of a shorter file, a tenth each.
TableSplits higgs(const std::filesystem::path& file, const Say& say = {});
/// HEPMASS (Baldi et al., 2016): NAME_train.csv and NAME_test.csv with a header line, label first; the last tenth of
/// the training rows validates.
TableSplits hepmass(const std::filesystem::path& train, const std::filesystem::path& test, const Say& say = {});
/// Adult (Kohavi, 1996): adult.data, 32,561 rows of 14 columns, 8 of them words, `?` for missing, the income last; and
/// adult.test, 16,281 rows behind a line of comment, labels with a full stop. The last tenth of training validates.
TableSplits adult(const std::filesystem::path& train, const std::filesystem::path& test, const Say& say = {});

}  // namespace uci

struct TableBatch {
  Tensor x;       ///< (batch, columns)
  Tensor labels;  ///< i64 (batch)
  std::vector<int64_t> rows;
};

/// Batches in an order that depends only on seed and epoch. With `shuffle`, rows are shuffled and a last batch that is
/// not full is left out; otherwise all rows come once, in order.
class TableLoader {
 public:
  TableLoader(const TableSplit& split, int64_t batch, uint64_t seed, bool shuffle = true);
  int64_t steps_per_epoch() const;
  TableBatch next();
  /// Goes to the batch that comes after `step` steps from the beginning.
  void go_to(int64_t step) { step_ = step; }

 private:
  const TableSplit& split_;
  int64_t batch_;
  uint64_t seed_;
  bool shuffle_;
  int64_t step_ = 0;      ///< of the next batch, over all epochs
  int64_t ordered_ = -1;  ///< the epoch of order_
  std::vector<int64_t> order_;
};

}  // namespace bochner
