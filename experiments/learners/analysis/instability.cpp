#include "experiments/learners/analysis/instability.h"

#include <cmath>
#include <limits>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "experiments/learners/buffers.h"

namespace bochner {
namespace {

double square_of_difference(const Tensor& a, const Tensor& b) {
  const Tensor d = a.cast(DType::f64) - b.cast(DType::f64);
  return sum(d * d).item();
}

}  // namespace

Tensor zero_padding(const Tensor& x, const Tensor& mask) { return mask.defined() ? where(mask.unsqueeze(2), x, 0) : x; }

std::vector<double> instability_scores(Learner& learner, Module& model, Feed& feed, const TokenVectors& f,
                                       Device device, int64_t updates, uint64_t seed, double share_of_time) {
  feed.go_to(0);
  std::vector<double> scores;
  const auto evaluated = [&](const Examples& x) {
    Generator noise = stream_of(seed, Stream::evaluation);  // the same each time
    Context context{noise, false};
    return f(x, context).clone();
  };
  for (int64_t i = 0; i < updates; ++i) {
    const Examples x = feed.next().to(device);
    std::vector<Tensor> before;
    for (const Parameter* parameter : model.parameters()) before.push_back(parameter->value.clone());
    const Buffers buffers_before = copied_buffers(model);  // such as running means, which a step also moves
    const Tensor y = evaluated(x);
    learner.set_share_of_time(std::min(1.0, static_cast<double>(i) * share_of_time));
    learner.step(i);
    double moved = 0;
    size_t k = 0;
    for (const Parameter* parameter : model.parameters()) {
      const Tensor& old = before[k++];
      if (parameter->trainable) moved += square_of_difference(parameter->value, old);
    }
    const Buffers buffers_after = copied_buffers(model);
    set_buffers(model, buffers_before);
    const double changed = square_of_difference(evaluated(x), y);
    set_buffers(model, buffers_after);
    scores.push_back(moved > 0 ? changed / moved : std::numeric_limits<double>::quiet_NaN());
  }
  return scores;
}

double mean_ratio(const std::vector<double>& scores, const std::vector<double>& others) {
  double total = 0;
  double count = 0;
  for (size_t i = 0; i < std::min(scores.size(), others.size()); ++i) {
    const double ratio = scores[i] / others[i];
    if (!std::isfinite(ratio)) continue;
    total += ratio;
    count += 1;
  }
  return count > 0 ? total / count : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace bochner
