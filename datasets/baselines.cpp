#include "datasets/baselines.h"

#include <algorithm>
#include <map>

namespace bochner {
namespace {

constexpr int64_t kNoToken = -1;

/// Counts per class; the mode of equal counts is the smallest class.
using Histogram = std::map<int64_t, int64_t>;

int64_t mode(const Histogram& counts) {
  return std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

int64_t first_token(const Dataset& dataset, int64_t example) {
  if (dataset.length(example) == 0) return kNoToken;
  int64_t id = 0;
  dataset.copy_tokens(example, 0, {&id, 1});
  return id;
}

void check(const Dataset& train, const Dataset& test) {
  for (const Dataset* dataset : {&train, &test}) {
    if (dataset->size() == 0) fail("baseline: {} has no examples", dataset->name());
  }
}

template <class Guess>
double accuracy(const Dataset& test, const Guess& guess) {
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) right += guess(i) == test.label(i) ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(test.size());
}

}  // namespace

double majority_accuracy(const Dataset& train, const Dataset& test) {
  check(train, test);
  Histogram counts;
  for (int64_t i = 0; i < train.size(); ++i) ++counts[train.label(i)];
  const int64_t answer = mode(counts);
  return accuracy(test, [&](int64_t) { return answer; });
}

double first_token_accuracy(const Dataset& train, const Dataset& test) {
  check(train, test);
  Histogram all;
  std::map<int64_t, Histogram> given;
  for (int64_t i = 0; i < train.size(); ++i) {
    ++all[train.label(i)];
    ++given[first_token(train, i)][train.label(i)];
  }
  std::map<int64_t, int64_t> answers;
  for (const auto& [token, counts] : given) answers[token] = mode(counts);
  answers[kNoToken] = mode(all);
  return accuracy(test, [&](int64_t i) {
    const auto known = answers.find(first_token(test, i));
    return known == answers.end() ? answers[kNoToken] : known->second;
  });
}

}  // namespace bochner
