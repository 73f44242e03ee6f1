#include "experiments/learners/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "datasets/baselines.h"
#include "engine/error.h"
#include "engine/nearest.h"

namespace bochner {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class A, class B>
double checked_size(const char* metric, const std::vector<A>& a, const std::vector<B>& b) {
  if (a.size() != b.size() || a.empty()) {
    fail("{}: {} answers to {} questions; there must be one to each, and at least one", metric, a.size(), b.size());
  }
  return static_cast<double>(a.size());
}

bool any_nan(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

/// Indices in ascending order of the values.
std::vector<size_t> order_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

/// Ranks from 1; equal values share their mean rank.
std::vector<double> ranks_of(const std::vector<double>& values) {
  const std::vector<size_t> order = order_of(values);
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
    begin = end;
  }
  return ranks;
}

const std::vector<Metric>& all_metrics() {
  static const std::vector<Metric> all = {
      {.name = "loss", .of = [](const Answers& a) { return a.loss_sum / a.terms; }},
      {.name = "accuracy", .of = [](const Answers& a) { return accuracy(a.guesses, a.labels); }},
      {.name = "perplexity",
       .of = [](const Answers& a) { return std::exp(a.nats / static_cast<double>(a.labels.size())); }},
      {.name = "next-sentence", .of = [](const Answers& a) { return accuracy(a.next_guesses, a.next_labels); }},
      {.name = "f1", .of = [](const Answers& a) { return f1_score(a.guesses, a.labels); }, .of_two_classes = true},
      {.name = "mcc", .of = [](const Answers& a) { return matthews_correlation(a.guesses, a.labels); }},
      {.name = "auc",
       .of = [](const Answers& a) { return area_under_curve(a.values, a.labels); },
       .of_two_classes = true},
      {.name = "pearson", .of = [](const Answers& a) { return pearson_correlation(a.values, a.truths); }},
      {.name = "spearman", .of = [](const Answers& a) { return spearman_correlation(a.values, a.truths); }},
  };
  return all;
}

}  // namespace

std::vector<Metric> metrics_named(const std::vector<std::string>& names, int64_t classes) {
  std::vector<Metric> chosen;
  for (const std::string& name : names) {
    const auto found = std::find_if(all_metrics().begin(), all_metrics().end(),
                                    [&](const Metric& metric) { return metric.name == name; });
    if (found == all_metrics().end()) {
      std::vector<std::string> known;
      for (const Metric& metric : all_metrics()) known.push_back(metric.name);
      fail("metrics: '{}' is none of {}", name, listed(known));
    }
    if (!found->of_two_classes || classes == 2) chosen.push_back(*found);
  }
  return chosen;
}

Baseline of_majority_class(const std::vector<int64_t>& train, const std::vector<int64_t>& labels,
                           const std::vector<Metric>& metrics) {
  Answers answers;
  answers.guesses.assign(labels.size(), most_frequent(train));
  answers.labels = labels;
  Baseline found{"majority class", {}};
  for (const Metric& metric : metrics) {
    if (metric.name != "loss") found.test.emplace_back(metric.name, metric.of(answers));
  }
  return found;
}

double accuracy(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels) {
  const double size = checked_size("accuracy", guesses, labels);
  int64_t right = 0;
  for (size_t i = 0; i < labels.size(); ++i) right += guesses[i] == labels[i] ? 1 : 0;
  return static_cast<double>(right) / size;
}

double f1_score(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels) {
  checked_size("f1", guesses, labels);
  int64_t both = 0;
  int64_t either = 0;  // guessed plus true, so those that are both count twice
  for (size_t i = 0; i < labels.size(); ++i) {
    both += guesses[i] == 1 && labels[i] == 1 ? 1 : 0;
    either += (guesses[i] == 1 ? 1 : 0) + (labels[i] == 1 ? 1 : 0);
  }
  return either == 0 ? 0 : 2 * static_cast<double>(both) / static_cast<double>(either);
}

double matthews_correlation(const std::vector<int64_t>& guesses, const std::vector<int64_t>& labels) {
  const double s = checked_size("mcc", guesses, labels);
  std::map<int64_t, std::pair<double, double>> counts;  // per class: guessed, true
  double c = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    counts[guesses[i]].first += 1;
    counts[labels[i]].second += 1;
    c += guesses[i] == labels[i] ? 1 : 0;
  }
  double pt = 0;
  double pp = 0;
  double tt = 0;
  for (const auto& [label, count] : counts) {
    pt += count.first * count.second;
    pp += count.first * count.first;
    tt += count.second * count.second;
  }
  const double divisor = std::sqrt((s * s - pp) * (s * s - tt));
  return divisor == 0 ? 0 : (c * s - pt) / divisor;
}

double pearson_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = checked_size("pearson", x, y);
  const auto is_constant = [](const std::vector<double>& values) {  // the mean of equal numbers may differ from them
    return std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); });
  };
  if (is_constant(x) || is_constant(y)) return kNone;
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x;
    const double dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return kNone;
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

double spearman_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  checked_size("spearman", x, y);
  if (any_nan(x) || any_nan(y)) return kNone;  // NaN has no rank
  return pearson_correlation(ranks_of(x), ranks_of(y));
}

double area_under_curve(const std::vector<double>& scores, const std::vector<int64_t>& labels) {
  checked_size("auc", scores, labels);
  if (any_nan(scores)) return kNone;
  const std::vector<double> ranks = ranks_of(scores);
  double of_ones = 0;
  double ones = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != 1) continue;
    of_ones += ranks[i];
    ones += 1;
  }
  const double zeros = static_cast<double>(scores.size()) - ones;
  return ones == 0 || zeros == 0 ? 0.5 : (of_ones - ones * (ones + 1) / 2) / (ones * zeros);
}

}  // namespace bochner
