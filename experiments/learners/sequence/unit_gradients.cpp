#include "experiments/learners/sequence/unit_gradients.h"

#include <cmath>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/tape.h"
#include "engine/error.h"
#include "engine/ops/join.h"

namespace bochner::sequence {

GradientStatistics gradient_statistics(const Tensor& g) {
  if (g.rank() != 3 || g.size() == 0) {
    fail("gradient statistics: (repetitions, examples, units) with at least one of each, got {}", g.shape().str());
  }
  const int64_t repetitions = g.size(0);
  const int64_t examples = g.size(1);
  const int64_t units = g.size(2);
  const std::vector<double> values = g.to_vector<double>();
  const auto at = [&](int64_t r, int64_t n, int64_t j) {
    return values[static_cast<size_t>((r * examples + n) * units + j)];
  };
  GradientStatistics sums;
  for (int64_t j = 0; j < units; ++j) {
    double absolute = 0;
    double within = 0;
    for (int64_t n = 0; n < examples; ++n) {
      double here = 0;
      for (int64_t r = 0; r < repetitions; ++r) {
        absolute += std::abs(at(r, n, j));
        here += at(r, n, j);
      }
      here /= static_cast<double>(repetitions);
      for (int64_t r = 0; r < repetitions; ++r) within += (at(r, n, j) - here) * (at(r, n, j) - here);
    }
    const auto count = static_cast<double>(repetitions * examples);
    const double mean = absolute / count;
    double about = 0;
    for (int64_t i = 0; i < repetitions * examples; ++i) {
      const double off = std::abs(values[static_cast<size_t>(i * units + j)]) - mean;
      about += off * off;
    }
    sums.absolute_mean += mean;
    sums.deviation += std::sqrt(about / count);
    sums.noise += std::sqrt(within / count);
  }
  const auto of = static_cast<double>(units);
  return {sums.absolute_mean / of, sums.deviation / of, sums.noise / of};
}

Tensor unit_gradients(const SequenceClassifier& model, const Batch& batch, int64_t repetitions, Generator& noise) {
  std::vector<Tensor> all;
  Context context{noise, false};
  for (int64_t r = 0; r < repetitions; ++r) {
    const Tensor h = model.units(batch.ids, batch.mask, context).value();  // (N, units)
    Tape tape;
    const Variable units = tape.watch(h);
    // cross_entropy is the mean over examples, and each example's loss depends only on its own row.
    const Variable sum = cross_entropy(model.scores(units), batch.labels) * static_cast<double>(batch.size());
    all.push_back(tape.gradients(sum, {units})[0].value());
  }
  return stack(all, 0);
}

}  // namespace bochner::sequence
