// The instability score of the first updates of a training (SKY Appendix F, Table 3; after Liu et al., 2020):
//
//   tau_i = |f(x_i, W_i) - f(x_i, W_{i-1})|^2 / |W_i - W_{i-1}|^2,   Frobenius norms
//
// x_i is the batch of update i, W all trained parameters, f the vectors of all tokens behind the last norm, with 0 in
// the place of padding, as the model of SKY's code gives them. The paper leaves open what noise f has: here f is an
// evaluation, without dropout, and both of a tau have the same random features or landmarks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/learners/learner.h"

namespace bochner {

/// What f(x, W) is: a tensor of any shape.
using TokenVectors = std::function<Tensor(const Examples&, Context&)>;

/// x (batch, places, dim) with 0 where mask, bool (batch, places), is false; undefined: x.
Tensor zero_padding(const Tensor& x, const Tensor& mask);

/// tau of each of the first `updates` of a fresh learner, which makes them. `feed` gives the batches that the learner
/// sees. Of a run that time ends, each of its steps took `share_of_time`; else that is 0. NaN where the update moved
/// nothing, as where the rate begins with 0.
std::vector<double> instability_scores(Learner& learner, Module& model, Feed& feed, const TokenVectors& f,
                                       Device device, int64_t updates, uint64_t seed, double share_of_time = 0);

/// The mean of tau_i / tau_i of the other, over updates where both are numbers; NaN where none are.
double mean_ratio(const std::vector<double>& scores, const std::vector<double>& others);

}  // namespace bochner
