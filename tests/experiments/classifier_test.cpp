// What the classifiers of rows of numbers measure.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/random.h"
#include "experiments/learners/rows/learner.h"

namespace bochner::classifier {
namespace {

TEST(AreaUnderCurve, IsTheShareOfPairsInOrder) {
  Generator generator(1);
  std::vector<double> scores;
  std::vector<int64_t> labels;
  for (int i = 0; i < 200; ++i) {
    labels.push_back(generator.uniform() < 0.3 ? 1 : 0);
    scores.push_back(std::floor(8 * (generator.uniform() + 0.2 * static_cast<double>(labels.back()))));  // many equal
  }
  double ordered = 0;
  double pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      ordered += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      pairs += 1;
    }
  }
  EXPECT_NEAR(area_under_curve(scores, labels), ordered / pairs, 1e-12);
  EXPECT_EQ(area_under_curve({1, 2, 3}, {0, 0, 1}), 1);
  EXPECT_EQ(area_under_curve({3, 2, 1}, {0, 0, 1}), 0);
  EXPECT_EQ(area_under_curve({3, 2}, {1, 1}), 0.5);
}

TEST(AreaUnderCurve, OfScoresThatAreNoNumbersIsNone) {
  EXPECT_TRUE(std::isnan(area_under_curve({1, std::nan(""), 3}, {0, 1, 1})));
  EXPECT_EQ(area_under_curve({1, std::numeric_limits<double>::infinity()}, {0, 1}), 1);
}

}  // namespace
}  // namespace bochner::classifier
