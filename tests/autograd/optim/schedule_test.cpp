#include "autograd/optim/schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/error.h"

namespace bochner {
namespace {

using Kind = Schedule::Kind;

void expect_rates(const Schedule& schedule, const std::vector<double>& expected) {
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(schedule.rate(static_cast<int64_t>(step)), expected[step], 1e-14) << "step " << step;
  }
}

/// For a warm-up of 4 steps and a run of 100, when 52 of 100 parts of its time are over.
void expect_equal_shape(Kind kind, double height) {
  const Schedule schedule{kind, 1, 4, 100};
  EXPECT_EQ(schedule.rate(0, 0.52), 0);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 0.52), 0.5 * height);
  EXPECT_DOUBLE_EQ(schedule.rate(4, 0.52), height);
  EXPECT_DOUBLE_EQ(schedule.rate(40, 0.52), height);
}

TEST(Schedule, ConstantStaysAtThePeakBehindALinearWarmup) {
  expect_rates({Kind::constant, 0.5, 0, 10}, {0.5, 0.5, 0.5});
  expect_rates({Kind::constant, 0.5, 4, 10}, {0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.5});
}

// Hugging Face's get_linear_schedule_with_warmup: 0 at the end of the run.
TEST(Schedule, LinearRisesAndFallsToZeroAtTheEnd) {
  expect_rates({Kind::linear, 0.6, 2, 8}, {0, 0.3, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0});
  expect_rates({Kind::linear, 0.6, 0, 3}, {0.6, 0.4, 0.2, 0});
}

// KL Table 6 and LRA: 5e-3 min(1, t / 1000) / sqrt(max(t, 1000)).
TEST(Schedule, RsqrtIsThatOfKlAndLra) {
  const Schedule schedule{Kind::rsqrt, 5e-3, 1000, 10000};
  EXPECT_EQ(schedule.rate(0), 0);
  EXPECT_DOUBLE_EQ(schedule.rate(500), 5e-3 * 0.5 / std::sqrt(1000.0));
  EXPECT_DOUBLE_EQ(schedule.rate(1000), 5e-3 / std::sqrt(1000.0));
  EXPECT_DOUBLE_EQ(schedule.rate(4000), 5e-3 / std::sqrt(4000.0));
  EXPECT_DOUBLE_EQ(Schedule({Kind::rsqrt, 1, 0, 10}).rate(0), 1);  // no warm-up: 1 / sqrt(max(t, 1))
}

TEST(Schedule, CosineFallsFromThePeakToZero) {
  const double side = std::cos(std::numbers::pi / 4);
  expect_rates({Kind::cosine, 2, 2, 6}, {0, 1, 2, 1 + side, 1, 1 - side, 0, 0});
}

// PyTorch's OneCycleLR(max_lr = 2, total_steps = 9, pct_start = 4 / 9, anneal_strategy = "linear"): from max / 25 to
// max in the first phase, which ends with step 3, then to max / 25 / 10^4 in the last step.
TEST(Schedule, OneCycleIsThatOfSkyformer) {
  const double low = 2.0 / 25;
  const double end = low / 1e4;
  std::vector<double> expected;
  for (int step = 0; step < 4; ++step) expected.push_back(low + (2 - low) * step / 3);
  for (int step = 4; step < 9; ++step) expected.push_back(2 + (end - 2) * (step - 3) / 5);
  expect_rates({Kind::one_cycle, 2, 4, 9}, expected);
  // cycle_momentum: beta1 goes the other way, 0.95, 0.85, 0.95.
  const Schedule schedule{Kind::one_cycle, 2, 4, 9};
  const std::vector<double> beta1 = {0.95, 0.95 - 0.1 / 3, 0.95 - 0.2 / 3, 0.85, 0.87, 0.89, 0.91, 0.93, 0.95};
  for (size_t step = 0; step < beta1.size(); ++step) {
    EXPECT_NEAR(one_cycle_beta1(schedule, static_cast<int64_t>(step)), beta1[step], 1e-12) << "step " << step;
  }
}

constexpr std::array kKinds = {Kind::constant, Kind::linear, Kind::rsqrt, Kind::cosine, Kind::one_cycle};

TEST(Schedule, NoRateIsNegativeOrInfiniteWhateverTheLengths) {
  for (const Kind kind : kKinds) {
    for (const double warmup : {0.0, 0.3, 0.99, 1.0, 5.0, 20.0}) {
      for (const int64_t steps : {0, 1, 5, 7}) {
        for (int64_t step = 0; step < 30; ++step) {
          for (const double elapsed : {0.0, 0.4, 1.0}) {
            const double rate = Schedule{kind, 0.1, warmup, steps}.rate(step, elapsed);
            EXPECT_TRUE(rate >= 0 && rate <= 0.1 + 1e-15) << static_cast<int>(kind) << " " << warmup << " " << steps;
          }
        }
      }
    }
  }
}

TEST(Schedule, AWarmupBelowOneIsAShareOfTheSteps) {
  for (const Kind kind : kKinds) {
    for (int64_t step = 0; step < 12; ++step) {
      EXPECT_EQ(Schedule({kind, 0.1, 0.26, 10}).rate(step), Schedule({kind, 0.1, 3, 10}).rate(step)) << step;
    }
  }
}

TEST(Schedule, AWarmupThatIsAShareFollowsTheTime) {
  for (const Kind kind : {Kind::constant, Kind::linear, Kind::cosine, Kind::one_cycle}) {
    const Schedule shares{kind, 1e-3, 0.1, 100};
    const Schedule steps{kind, 1e-3, 10, 100};
    EXPECT_EQ(shares.rate(0, 0.05), steps.rate(5));  // in the warm-up
    EXPECT_EQ(shares.rate(1, 0.5), steps.rate(50));
    EXPECT_EQ(shares.rate(4, 0.02), steps.rate(4));  // the steps will end it first
    EXPECT_EQ(shares.rate(1, 1), steps.rate(100));
  }
}

// A run of many steps that ends by time, after a hundred steps.
TEST(Schedule, RsqrtCountsStepsHoweverManyWereAskedFor) {
  for (const double warmup : {0.0, 0.1, 10.0}) {
    const Schedule asked{Kind::rsqrt, 1e-3, warmup, 1'000'000};
    const Schedule made{Kind::rsqrt, 1e-3, warmup, 100};
    for (const int64_t step : {1, 5, 10, 50, 100}) {
      EXPECT_NEAR(asked.rate(step, static_cast<double>(step) / 100), made.rate(step), 1e-9) << warmup << " " << step;
    }
  }
}

TEST(Schedule, AWarmupInStepsTakesTheseHoweverFastTheTimePasses) {
  expect_equal_shape(Kind::constant, 1);
  expect_equal_shape(Kind::linear, 0.5);  // of the peak, when half of the time after the warm-up is over
  expect_equal_shape(Kind::cosine, 0.5);
  EXPECT_EQ(Schedule({Kind::rsqrt, 1, 4, 100}).rate(2, 0.52), 0.25);
  EXPECT_EQ(Schedule({Kind::rsqrt, 1, 4, 100}).rate(16, 0.52), 0.25);
  const Schedule cycle{Kind::one_cycle, 1, 5, 105};  // its peak is step 4, its last step 104
  EXPECT_DOUBLE_EQ(cycle.rate(2, 0.1), cycle.rate(2));
  EXPECT_DOUBLE_EQ(cycle.rate(6, 0.6), cycle.rate(63));
  EXPECT_LT(cycle.rate(3, 1), 0.05);  // the time is over before the warm-up: no high rate remains
}

TEST(Schedule, NamesAreThoseOfConfigurationFiles) {
  EXPECT_EQ(Schedule::named("constant"), Kind::constant);
  EXPECT_EQ(Schedule::named("linear"), Kind::linear);
  EXPECT_EQ(Schedule::named("rsqrt"), Kind::rsqrt);
  EXPECT_EQ(Schedule::named("cosine"), Kind::cosine);
  EXPECT_EQ(Schedule::named("one-cycle"), Kind::one_cycle);
  EXPECT_THROW(Schedule::named("onecycle"), Error);
}

}  // namespace
}  // namespace bochner
