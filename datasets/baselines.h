// Trivial classifiers, which guess from the training set, for comparison with a model. A tie goes to the smaller class.
#pragma once

#include <vector>

#include "datasets/dataset.h"

namespace bochner {

/// The labels of all examples, in their order.
std::vector<int64_t> labels_of(const Dataset& dataset);

/// The most frequent of the labels. An Error if there are none.
int64_t most_frequent(const std::vector<int64_t>& labels);

/// Accuracy on `test` of answering the class that is most frequent in `train` among examples with the same first token:
/// in ListOps the outermost operator. For a first token that is not in `train`, and for an empty example, the answer is
/// the most frequent class of all.
double first_token_accuracy(const Dataset& train, const Dataset& test);

}  // namespace bochner
