// Turns columns of words and columns with gaps into numbers that a network can take.
//
//   column of numbers            itself, with the mean of the training rows instead of a missing value; after it a
//                                column of 0 and 1, `NAME is missing`
//   column of categories         a column of 0 and 1, `NAME=CATEGORY`, for each category of the training rows, by value
//                                where all are numbers, else by alphabet; then `NAME is missing`
//
// Only the training rows decide on the columns. The column `NAME is missing` exists only if a training row has a gap;
// otherwise a
// gap in other rows becomes the mean, or no category. A category that no training row has gets no column: all of them
// are 0 for it, and the notes count such rows.
#pragma once

#include <string>
#include <vector>

#include "datasets/tables/tabular.h"

namespace bochner {

/// Turns the features of the splits from read_table into those for the network, and fills `columns`, `as_they_are` and
/// `notes`. More than 100,000 columns are an Error.
void encode(TableSplits& splits, const NumericTable& table);

/// The categories of `test` with the numbers of `train`; -1 for those that `train` does not have. An Error names a
/// column with numbers in one file and words in the other.
void number_as(const NumericTable& train, NumericTable& test);

}  // namespace bochner
