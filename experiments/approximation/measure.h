// Measures the errors of attention by features or landmarks against exact attention. An Error if queries and keys are
// so large that an error is not finite.
#pragma once

#include <string>
#include <vector>

#include "engine/random.h"
#include "experiments/common/report/spread.h"
#include "layers/attention/mechanism.h"

namespace bochner {

/// PERF Lemma 2 for one random feature and two vectors of length l at angle phi: the mean squared errors of the
/// estimates of exp(x.y) from trigonometric and from positive features.
struct KernelErrors {
  double trigonometric = 0;
  double positive = 0;
};
KernelErrors kernel_errors(double length, double angle);
/// The ratio of the first to the second, even if the errors themselves are too small or too large to divide.
double error_ratio(double length, double angle);

/// Mean squared difference between the outputs of `mechanism` and of softmax attention on Q, K ~ N(0, scale^2) and
/// V ~ N(0, 1), all (1, 1, L, D). Softmax sees vectors of the length scale D^(1/4): exp(q.k / sqrt D).
double output_error(const MechanismOptions& mechanism, int64_t length, int64_t dim, double scale, Generator& generator);

/// What attention reads, each (batch, heads, L, D).
struct AttentionInputs {
  Tensor Q, K, V;
};

/// A Transformer with random weights, for layered_errors.
struct Stack {
  int64_t length = 0;
  int64_t dim = 0;  ///< of a head
  int64_t heads = 1;
  int64_t layers = 1;
  int64_t hidden = 0;  ///< of the feed-forward blocks; 0: none, x <- LN(x + attend(x Wq, x Wk, x Wv))
};

/// PERF Fig. 14: the mean over tokens of |x - y| / |y| after layer 1, 2, ..., where x comes from a Transformer with
/// `mechanism` and y from one with softmax attention and the same weights. Inputs are N(0, 1).
std::vector<double> layered_errors(const MechanismOptions& mechanism, const Stack& stack, Generator& generator);

/// The largest singular value of the difference between the outputs of a method and of softmax attention, over that of
/// softmax attention (SKY §4.5), for one head. `method`: a mechanism, without a convolution of V, or `nystrom`,
/// SKY Eqs. 4-6 on the raw exp(Q K^T / sqrt D) with its row sums then taken from the approximation. `features`: the
/// number of random features or landmarks, where the method has such.
double spectral_error(const std::string& method, int64_t features, const AttentionInputs& inputs, Generator& generator);

}  // namespace bochner
