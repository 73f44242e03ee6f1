// How much the noise of random features changes the answers of a trained model (KL §4.1): the same examples are
// evaluated again and again, each time with new noise.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/learners/learner.h"

namespace bochner {

/// The answers to one example.
struct ExampleNoise {
  double accuracy = 0;       ///< share of evaluations that were right
  bool voted_right = false;  ///< whether most evaluations give the right class; of equal counts, the smaller class wins
  /// Evaluations out of 100 that differ from the majority's class (KL: min(x, 100 - x)).
  double inconsistency = 0;
  /// Standard deviation of the score, s_1 - s_0, over the absolute value of its mean; NaN if there are not two classes,
  /// infinite if the mean is 0.
  double relative_deviation = 0;
};

/// `scores`: for each evaluation, one number for each class.
ExampleNoise noise_of_example(const std::vector<std::vector<double>>& scores, int64_t label);

struct NoiseStatistics {
  int64_t examples = 0;
  int64_t evaluations = 0;
  double accuracy = 0;            ///< mean over evaluations
  double accuracy_deviation = 0;  ///< of the accuracy of one evaluation, over evaluations
  double voting_accuracy = 0;     ///< VA
  double gain = 0;                ///< AGV: VA / accuracy
  double inconsistency = 0;       ///< PI in percent, mean over examples
  double relative_deviation = 0;  ///< RSD, mean over examples; NaN if there are not two classes
  double relative_deviation_median = 0;
  // Squared correlations over examples, NaN if one never varies: of RSD and PI, and of each with the accuracy.
  double r2 = 0, r2_deviation_accuracy = 0, r2_inconsistency_accuracy = 0;
  std::vector<ExampleNoise> each;  ///< of every example, in the order of the feed
};

/// Evaluates the first `examples` of a feed `evaluations` times, batch by batch, so data are read once. The forward
/// pass draws from `noise`. `told` is called with the number of examples that are done.
NoiseStatistics noise_statistics(Feed& feed, const Problem& problem, Device device, int64_t examples,
                                 int64_t evaluations, Generator& noise, const std::function<void(int64_t)>& told);

/// The squared correlation of two lists; NaN if one of them never varies or has fewer than two values.
double r_squared(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace bochner
