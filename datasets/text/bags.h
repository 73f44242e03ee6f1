// A baseline for text tasks: logistic regression on counts of words or bytes, which does not see their order.
//
//   const double words = bag_accuracy(train, test, Bag::words, 4000);     // IMDb: 0.888
#pragma once

#include "datasets/text/byte_texts.h"

namespace bochner::text {

enum class Bag {
  bytes,  ///< how often each of the 256 occurs
  words   ///< runs of letters, digits and bytes above 127, A as a, in 2^18 buckets by their hash; rare ones weigh more
};

/// The accuracy on `test` of a logistic regression trained on `train` for four epochs. Its orders and steps (AdaGrad)
/// depend on nothing but the data. Labels are 0 and 1; only the first `max_length` bytes of each text count.
///
/// A text is the vector x_w = log(1 + n_w), for words times the inverse document frequency log(N / N_w), divided by its
/// norm. The features of a text are x_w; those of a pair are u_w v_w and |u_w - v_w| for each w, and the cosine of u
/// and v.
double bag_accuracy(const ByteTexts& train, const ByteTexts& test, Bag bag, int64_t max_length);

}  // namespace bochner::text
