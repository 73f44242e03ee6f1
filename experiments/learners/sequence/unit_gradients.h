// The gradients that KL Table 14 reports: those at the hidden units of the classifier, over examples and over the noise
// of random features.
//
// The paper's words (Appendix E.3): "we pass the first 50 validation datapoints and record the gradients on the
// classifier layer. This process is repeated 50 times. Thereafter, we calculate the mean and standard deviation of
// gradients to each neuron. To avoid cancellation of opposite signs, the mean is calculated over absolute values. The
// final reported numbers are averages over the 64 neurons." Here, for unit j of the hidden layer, example n and
// repetition r,
//
//   g_rnj = dL_n / dh_j = sum_c W_cj (p_c - [c = y_n]),   L_n the cross-entropy of example n alone
//   m_j = mean_rn |g_rnj|,   s_j^2 = mean_rn (|g_rnj| - m_j)^2,   reported: mean_j m_j and mean_j s_j
//
// The deviation, too, is that of absolute values: in most rows of Table 14 it is 0.56 to 0.58 of the mean, while for
// signed gradients of balanced classes, whose mean is about 0, it would be more than 1. The numbers of the first row,
// 0.144 and 0.083, are those of |W_cj| itself for Glorot's U(-0.287, 0.287) of a 64-to-9 layer, 0.143 and 0.083. So the
// gradients are those of one example, at the units.
#pragma once

#include "datasets/loader.h"
#include "layers/models/encoder.h"

namespace bochner::sequence {

struct GradientStatistics {
  double absolute_mean = 0;  ///< mean_j m_j
  double deviation = 0;      ///< mean_j s_j
  double noise = 0;  ///< the part of the deviation that comes from random features: mean_j sqrt(mean_n var_r g_rnj)
};

/// For g (repetitions, examples, units); deviations divide by the count, not by one less.
GradientStatistics gradient_statistics(const Tensor& g);

/// dL_n / dh for each example of a batch, `repetitions` times, without dropout; the noise is new each time if the
/// attention redraws in evaluation.  (repetitions, batch, units)
Tensor unit_gradients(const SequenceClassifier& model, const Batch& batch, int64_t repetitions, Generator& noise);

}  // namespace bochner::sequence
