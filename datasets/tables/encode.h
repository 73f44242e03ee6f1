// Turns columns of words and columns with gaps into numbers that a network can take.
//
//   column of numbers            itself, with the mean of the training rows instead of a missing value; after it a
//                                column of 0 and 1, `NAME is missing`
//   column of categories         a column of 0 and 1, `NAME=CATEGORY`, for each category of the training rows, by value
//                                where all are numbers, else by alphabet; then `NAME is missing`
//
// The training rows alone decide. The column `NAME is missing` exists only if a training row has a gap; otherwise a
// gap in other rows becomes the mean, or no category. A category that no training row has gets no column: all of them
// are 0 for it, and the notes count such rows.
#pragma once

#include <string>
#include <vector>

#include "datasets/tables/tabular.h"

namespace bochner {

/// Features of the splits as read_table gives them -> as the network takes them, with `columns`, `as_they_are` and
/// `notes`. An Error if these would be more than 100,000 columns.
void encode(TableSplits& splits, const NumericTable& table);

/// The categories of `test` numbered as those of `train`; ones that `train` has not become -1. An Error names the
/// column that holds numbers in one file and words in the other.
void number_as(const NumericTable& train, NumericTable& test);

}  // namespace bochner
