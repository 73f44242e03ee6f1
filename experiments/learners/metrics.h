// Metrics of a model on a split, computed from all its answers at once, since some metrics are not means over examples.
//
// To add one, write it as a function of the answers and add a line to the list in metrics.cpp; tasks then name it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/common/run/trainer.h"

namespace bochner {

/// A model's answers on a split and the right answers, in the order of the split.
struct Answers {
  double loss_sum = 0;  ///< over all terms
  double terms = 0;
  // For classification; if tokens have labels, one entry for each token that has one.
  std::vector<int64_t> guesses, labels;
  /// For regression, the outputs; for two classes, the score of class 1 minus that of class 0.
  std::vector<double> values;
  std::vector<double> truths;  ///< of regression
  // Of masked tokens (masked/masked_tokens.h).
  double nats = 0;                                 ///< -ln p of the right token, over all that have a label
  std::vector<int64_t> next_guesses, next_labels;  ///< whether the second text follows the first
};

struct Metric {
  std::string name;
  std::function<double(const Answers&)> of;
  bool of_two_classes = false;  ///< defined for two classes only
};

/// The metrics with these names, in their order; an Error lists the known names. If `classes` is not 2, those for two
/// classes are left out.
std::vector<Metric> metrics_named(const std::vector<std::string>& names, int64_t classes = 2);

/// The metrics of guesses, without the loss, of always naming the most frequent class in `train`; of equally frequent
/// classes, the smallest.
Baseline of_majority_class(const std::vector<int64_t>& train, const std::vector<int64_t>& labels,
                           const std::vector<Metric>& metrics);

/// The fraction of equal entries.
double accuracy(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels);
/// 2 TP / (2 TP + FP + FN) of class 1; 0 if class 1 neither occurs nor was guessed.
double f1_score(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels);
/// Matthews' correlation for any number of classes (Gorodkin, 2004), with c of s answers right, and class k guessed p_k
/// times and true t_k times:
///   (c s - sum_k p_k t_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2));  0 if the divisor is 0
double matthews_correlation(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels);
/// Pearson's correlation; NaN if one of the two is constant.
double pearson_correlation(const std::vector<double>& x, const std::vector<double>& y);
/// Pearson's correlation of the ranks; equal values share their mean rank.
double spearman_correlation(const std::vector<double>& x, const std::vector<double>& y);
/// The area under the receiver operating characteristic: the fraction of pairs with one example of each class in which
/// that of class 1 has the larger score; equal scores count half. 1/2 if a class has no example, NaN if a score is NaN.
double area_under_curve(const std::vector<double>& scores, const std::vector<int64_t>& labels);

}  // namespace bochner
