// What counting words or bytes gets on a task of texts, without their order: a logistic regression, for numbers beside
// a model's.
//
//   const double words = bag_accuracy(train, test, Bag::words, 4000);     // IMDb: 0.87
#pragma once

#include "datasets/text/byte_texts.h"

namespace bochner::text {

enum class Bag {
  bytes,  ///< how often each of the 256 is there
  words   ///< runs of letters, digits and bytes above 127, A as a, in 2^18 buckets by their hash; rare ones weigh more
};

/// The share of right answers on `test` of a logistic regression that saw `train` four times, in orders and with steps
/// (AdaGrad) that nothing but the data changes. Labels are 0 and 1; of each text the first `max_length` bytes count.
///
/// A text is its vector x_w = log(1 + n_w), of words times the inverse document frequency log(N / N_w), divided by its
/// length. Features are x_w; of pairs u_w v_w and |u_w - v_w| for each w, and the cosine of the two.
double bag_accuracy(const ByteTexts& train, const ByteTexts& test, Bag bag, int64_t max_length);

}  // namespace bochner::text
