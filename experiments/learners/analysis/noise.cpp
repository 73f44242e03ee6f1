#include "experiments/learners/analysis/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error.h"
#include "experiments/common/report/spread.h"

namespace bochner {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int64_t class_of(const std::vector<double>& scores) {
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

/// Deviation (dividing by the count) over |mean|. Values are taken relative to the first, so that equal ones give 0.
double relative_deviation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double shift = 0;
  for (const double value : values) shift += (value - values.front()) / n;
  double square = 0;
  for (const double value : values) square += std::pow(value - values.front() - shift, 2) / n;
  if (square == 0) return 0;
  return std::sqrt(square) / std::abs(values.front() + shift);
}

double mean_of(const std::vector<double>& values) { return spread_of(values).mean; }

}  // namespace

ExampleNoise noise_of_example(const std::vector<std::vector<double>>& scores, int64_t label) {
  const auto count = static_cast<double>(scores.size());
  std::vector<int64_t> votes(scores.front().size(), 0);
  std::vector<double> margins;
  for (const std::vector<double>& one : scores) {
    ++votes[static_cast<size_t>(class_of(one))];
    if (one.size() == 2) margins.push_back(one[1] - one[0]);
  }
  const auto most = std::max_element(votes.begin(), votes.end());
  return {.accuracy = static_cast<double>(votes[static_cast<size_t>(label)]) / count,
          .voted_right = most - votes.begin() == label,
          .inconsistency = 100 * (1 - static_cast<double>(*most) / count),
          .relative_deviation = margins.empty() ? kNan : relative_deviation(margins)};
}

NoiseStatistics noise_statistics(Feed& feed, const Problem& problem, Device device, int64_t examples,
                                 int64_t evaluations, Generator& noise, const std::function<void(int64_t)>& told) {
  NoiseStatistics result;
  result.evaluations = evaluations;
  std::vector<double> right(static_cast<size_t>(evaluations), 0);  // how many examples each evaluation gets right
  std::vector<double> accuracies, voted, inconsistencies, deviations;
  feed.go_to(0);
  const int64_t wanted = std::min(examples, feed.examples());
  while (result.examples < wanted) {
    const Examples batch = feed.next().to(device);
    const std::vector<int64_t> labels = batch.at("labels").to_vector<int64_t>();
    const auto used = static_cast<size_t>(std::min(batch.size(), wanted - result.examples));
    std::vector<std::vector<std::vector<double>>> scores(used);
    for (size_t k = 0; k < right.size(); ++k) {
      Context context{noise, false};
      const Tensor said = problem.forward(batch, context).front().value();  // (n, classes)
      if (said.rank() != 2) fail("noise: scores must be (examples, classes), got {}", said.shape().str());
      const std::vector<double> numbers = said.to_vector<double>();
      const auto classes = static_cast<size_t>(said.size(1));
      for (size_t i = 0; i < used; ++i) {
        const auto row = numbers.begin() + static_cast<std::ptrdiff_t>(i * classes);
        scores[i].emplace_back(row, row + static_cast<std::ptrdiff_t>(classes));
        right[k] += class_of(scores[i].back()) == labels[i] ? 1 : 0;
      }
    }
    for (size_t i = 0; i < used; ++i) {
      const ExampleNoise one = noise_of_example(scores[i], labels[i]);
      accuracies.push_back(one.accuracy);
      voted.push_back(one.voted_right ? 1 : 0);
      inconsistencies.push_back(one.inconsistency);
      deviations.push_back(one.relative_deviation);
      result.each.push_back(one);
    }
    result.examples += static_cast<int64_t>(used);
    told(result.examples);
  }
  for (double& count : right) count /= static_cast<double>(wanted);
  result.accuracy = mean_of(accuracies);
  result.accuracy_deviation = spread_of(right).deviation;
  result.voting_accuracy = mean_of(voted);
  result.gain = result.voting_accuracy / result.accuracy;
  result.inconsistency = mean_of(inconsistencies);
  result.relative_deviation = mean_of(deviations);
  result.relative_deviation_median = quantile(deviations, 0.5);
  result.r2 = r_squared(deviations, inconsistencies);
  result.r2_deviation_accuracy = r_squared(deviations, accuracies);
  result.r2_inconsistency_accuracy = r_squared(inconsistencies, accuracies);
  return result;
}

double r_squared(const std::vector<double>& x, const std::vector<double>& y) {
  return x.size() < 2 ? kNan : std::pow(pearson_correlation(x, y), 2);
}

}  // namespace bochner
