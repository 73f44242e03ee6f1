// Columns of words and columns with gaps as numbers that a network can take.
//
//   column of numbers            itself; where a value is missing, the mean of those that training rows have, and a
//                                column of 0 and 1, `NAME is missing`, behind it
//   column of categories         a column of 0 and 1, `NAME=CATEGORY`, for each category of the training rows, by value
//                                where all are numbers, else by alphabet; then `NAME is missing`
//
// What decides is the training rows alone. The column `NAME is missing` is there only where a training row has a gap;
// a gap of other rows is then the mean, or no category. A category that no training row has is none of the columns:
// all of them are 0 there, and the notes count such rows.
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
