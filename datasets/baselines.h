// The accuracies of trivial classifiers, for comparison with a model's accuracy. Both baselines guess from the training
// set and are scored on another set; a tie goes to the smaller class.
#pragma once

#include "datasets/dataset.h"

namespace bochner {

/// Accuracy on `test` of always answering the most frequent class of `train`.
double majority_accuracy(const Dataset& train, const Dataset& test);

/// Accuracy on `test` of answering the class that is most frequent in `train` among examples with the same first token:
/// in ListOps the outermost operator. A first token that is not in `train`, and an empty example, get the most frequent
/// class of all.
double first_token_accuracy(const Dataset& train, const Dataset& test);

}  // namespace bochner
