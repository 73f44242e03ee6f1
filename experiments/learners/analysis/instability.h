// The instability score of the first updates of a training run (SKY Appendix F, Table 3; after Liu et al., 2020):
//
//   tau_i = |f(x_i, W_i) - f(x_i, W_{i-1})|^2 / |W_i - W_{i-1}|^2,   Frobenius norms
//
// x_i is the batch of update i, W all trained parameters, and f the vectors of all tokens after the last norm, with 0
// in place of padding, as the model of SKY's code gives them. The paper does not say what noise f has: here f is an
// evaluation, without dropout, and both values of f in a tau use the same random features or landmarks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/learners/learner.h"

namespace bochner {

/// What f(x, W) is: a tensor of any shape.
using TokenVectors = std::function<Tensor(const Examples&, Context&)>;

/// x (batch, places, dim) with 0 where mask, bool (batch, places), is false; x itself if mask is undefined.
Tensor zero_padding(const Tensor& x, const Tensor& mask);

/// tau of each of the first `updates` of a fresh learner, which makes them. `feed` gives the batches that the learner
/// sees. If the run is limited by time, `share_of_time` is the share of it that each step took; otherwise 0. NaN if the
/// update moved nothing, as when the learning rate begins at 0.
std::vector<double> instability_scores(Learner& learner, Module& model, Feed& feed, const TokenVectors& f,
                                       Device device, int64_t updates, uint64_t seed, double share_of_time = 0);

/// The mean of tau_i / (tau_i of `others`), over updates where both are numbers; NaN if there are none.
double mean_ratio(const std::vector<double>& scores, const std::vector<double>& others);

}  // namespace bochner
