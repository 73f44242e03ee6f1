// Metrics of a whole split against scikit-learn's and SciPy's numbers: tests/golden/metrics.py.
#include "experiments/learners/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "experiments/learners/objective.h"

namespace bochner {
namespace {

using nlohmann::json;
constexpr double kClose = 1e-12;

const json& golden() {
  static const json all = json::parse(std::ifstream(BOCHNER_SOURCE_DIR "/tests/golden/metrics.json"));
  return all;
}

/// Every metric that the oracle knows of a case, by its name in the list.
void expect_as_expected(const json& one, const Answers& answers) {
  for (const auto& [name, expected] : one["expected"].items()) {
    const double found = metrics_named({name})[0].of(answers);
    if (expected.is_string()) {
      EXPECT_TRUE(std::isnan(found)) << one["name"] << ", " << name << ": " << found;
    } else {
      EXPECT_NEAR(found, expected.get<double>(), kClose) << one["name"] << ", " << name;
    }
  }
}

TEST(Metrics, OfTheMajorityClassAreThoseOfAlwaysNamingIt) {
  const auto found = of_majority_class({1, 1, 0}, {0, 1, 0, 0}, metrics_named({"loss", "accuracy", "f1"}));
  EXPECT_EQ(found.name, "majority class");
  EXPECT_EQ(found.test, (Metrics{{"accuracy", 0.25}, {"f1", 2.0 / 5}}));
  EXPECT_EQ(of_majority_class({7, 3, 3, 7}, {3, 7, 3}, metrics_named({"accuracy"})).test[0].second, 2.0 / 3);
}

TEST(Metrics, OfClassesAreScikitLearns) {
  ASSERT_EQ(golden()["classes"].size(), 8U);
  for (const json& one : golden()["classes"]) {
    Answers answers;
    answers.guesses = one["guesses"].get<std::vector<int64_t>>();
    answers.labels = one["labels"].get<std::vector<int64_t>>();
    expect_as_expected(one, answers);
  }
}

TEST(Metrics, OfScoresAreScikitLearns) {
  ASSERT_EQ(golden()["scores"].size(), 3U);
  for (const json& one : golden()["scores"]) {
    Answers answers;
    answers.values = one["values"].get<std::vector<double>>();
    answers.labels = one["labels"].get<std::vector<int64_t>>();
    expect_as_expected(one, answers);
  }
}

TEST(Metrics, OfNumbersAreScipys) {
  ASSERT_EQ(golden()["values"].size(), 5U);
  for (const json& one : golden()["values"]) {
    Answers answers;
    answers.values = one["values"].get<std::vector<double>>();
    answers.truths = one["truths"].get<std::vector<double>>();
    expect_as_expected(one, answers);
  }
}

TEST(Metrics, WhatIsConstantCorrelatesWithNothing) {
  const std::vector<double> tenths(10, 0.1);  // whose mean is a different number
  EXPECT_TRUE(std::isnan(pearson_correlation(tenths, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})));
  EXPECT_TRUE(std::isnan(pearson_correlation(tenths, std::vector<double>(10, 0.7))));
}

// When they choose the best model, and when tables print them; "matched accuracy" is read as "accuracy".
TEST(Metrics, AreReadByTheirNames) {
  for (const char* metric : {"loss", "perplexity", "test_error"}) {
    EXPECT_FALSE(higher_is_better(metric)) << metric;
    EXPECT_FALSE(is_share(metric)) << metric;
  }
  for (const char* metric :
       {"accuracy", "matched accuracy", "next-sentence", "f1", "mcc", "auc", "pearson", "spearman"}) {
    EXPECT_TRUE(higher_is_better(metric)) << metric;
    EXPECT_TRUE(is_share(metric)) << metric;
  }
  EXPECT_TRUE(higher_is_better("psnr"));
  EXPECT_FALSE(is_share("psnr"));
}

TEST(Metrics, AreNanWhereAnAnswerIs) {
  const double none = std::nan("");
  EXPECT_TRUE(std::isnan(area_under_curve({1, none, 3}, {0, 1, 1})));
  EXPECT_TRUE(std::isnan(pearson_correlation({1, none, 3}, {0, 1, 1})));
  EXPECT_TRUE(std::isnan(spearman_correlation({1, none, 3}, {0, 1, 1})));
  EXPECT_EQ(area_under_curve({1, std::numeric_limits<double>::infinity()}, {0, 1}), 1);
  EXPECT_EQ(area_under_curve({3, 2}, {1, 1}), 0.5);  // scikit-learn has no answer for this
}

TEST(Metrics, AreRefusedByNameAndByCount) {
  try {
    metrics_named({"loss", "f2"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "metrics: 'f2' is none of loss, accuracy, perplexity, next-sentence, f1, mcc, auc, pearson, spearman");
  }
  EXPECT_EQ(metrics_named({"loss", "auc", "f1", "mcc"}, 10).size(), 2U);  // those for two classes are left out
  EXPECT_THROW(accuracy({1}, {1, 0}), Error);
  EXPECT_THROW(matthews_correlation({}, {}), Error);
}

TEST(Metrics, TheValueOfTwoClassesIsTheDifferenceOfTheirScores) {
  const Examples examples{{{"labels", Tensor::from<int64_t>({0, 1}, {2})}}, {0, 1}};
  Answers answers;
  Classification().collect({Variable(Tensor::from<float>({1, 2, 5, 5.5F}, {2, 2}))}, examples, answers);
  EXPECT_EQ(answers.values, (std::vector<double>{1, 0.5}));
}

}  // namespace
}  // namespace bochner
