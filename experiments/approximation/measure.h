// How far attention by features or landmarks is from exact attention.
#pragma once

#include "engine/random.h"
#include "layers/attention/mechanism.h"

namespace bochner {

/// Mean and standard deviation of repeated measurements.
struct Spread {
  double mean = 0;
  double deviation = 0;
};
Spread spread_of(const std::vector<double>& values);

/// PERF Lemma 2: MSE of trigonometric over MSE of positive features for two vectors of length l at the angle phi.
double error_ratio(double length, double angle);

/// Mean squared difference between the outputs of `mechanism` and of softmax attention on Q, K, V ~ N(0, 1) (1, 1, L,
/// D).
double output_error(const std::string& mechanism, const AttentionOptions& options, int64_t length, int64_t dim,
                    Generator& generator);

/// The mean over tokens of |x_n - y_n| / |y_n| after `layers` blocks x <- LN(x + attend(x Wq, x Wk, x Wv)) with the
/// same random weights, y with softmax attention (PERF Fig. 14).
double layered_error(const std::string& mechanism, const AttentionOptions& options, int64_t length, int64_t dim,
                     int64_t layers, Generator& generator);

/// The largest singular value of the difference between the outputs of a method and of softmax attention, over that of
/// softmax attention (SKY §4.5). Q, K, V (1, 1, L, D). `method`: a mechanism, or `nystrom`, SKY Eqs. 4-6 on the raw
/// exp(Q K^T / sqrt D) with its row sums then taken from the approximation.
double spectral_error(const std::string& method, const AttentionOptions& options, const Tensor& Q, const Tensor& K,
                      const Tensor& V, Generator& generator);

}  // namespace bochner
