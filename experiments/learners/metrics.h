// Metrics of a model on a split, computed from all its answers at once, since not every metric is a mean over
// examples.
//
// To add one, write its function of the answers and a line in the list of metrics.cpp; tasks then name it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/common/run/metrics.h"

namespace bochner {

/// What a model answered on a split and what would have been right, in the order of the split.
struct Answers {
  double loss_sum = 0;  ///< over all terms
  double terms = 0;
  // Of classes; where each token has a label, of each that has one.
  std::vector<int64_t> guesses, labels;
  /// Of regression what the model says, of two classes the score of class 1 less that of class 0.
  std::vector<double> values;
  std::vector<double> truths;  ///< of regression
};

struct Metric {
  std::string name;
  std::function<double(const Answers&)> of;
  bool higher_is_better = true;
  bool of_two_classes = false;  ///< means nothing for other numbers of them
};

/// Those of these names, in their order; an Error lists the names that there are. Where `classes` is not 2, those of
/// two classes are left out.
std::vector<Metric> metrics_named(const std::vector<std::string>& names, int64_t classes = 2);

/// The share of equal entries.
double accuracy(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels);
/// 2 TP / (2 TP + FP + FN) of class 1; 0 where class 1 neither is nor was guessed.
double f1_score(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels);
/// Matthews' correlation of any number of classes (Gorodkin, 2004), with c right ones of s, and class k guessed p_k
/// times where it comes t_k times:
///   (c s - sum_k p_k t_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2));  0 where the divisor is
double matthews_correlation(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels);
/// Pearson's correlation; NaN where one of both never varies.
double pearson_correlation(const std::vector<double>& x, const std::vector<double>& y);
/// Pearson's correlation of the ranks; equal values share their mean rank.
double spearman_correlation(const std::vector<double>& x, const std::vector<double>& y);
/// The area under the receiver operating characteristic: the share of pairs of one example of each class where that of
/// class 1 has the larger score; equal scores count half. 1/2 where a class has no example, NaN where a score is.
double area_under_curve(const std::vector<double>& scores, const std::vector<int64_t>& labels);

}  // namespace bochner
