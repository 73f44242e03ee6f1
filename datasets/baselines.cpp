#include "datasets/baselines.h"

#include <algorithm>
#include <map>

namespace bochner {
namespace {

constexpr int64_t kNoToken = -1;

/// Counts per class; among equal counts, the mode is the smallest class.
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

}  // namespace

std::vector<int64_t> labels_of(const Dataset& dataset) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < dataset.size(); ++i) labels.push_back(dataset.label(i));
  return labels;
}

int64_t most_frequent(const std::vector<int64_t>& labels) {
  if (labels.empty()) fail("baseline: there are no labels");
  Histogram counts;
  for (const int64_t label : labels) ++counts[label];
  return mode(counts);
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
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    const auto known = answers.find(first_token(test, i));
    right += (known == answers.end() ? answers[kNoToken] : known->second) == test.label(i) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

}  // namespace bochner
