// Every op in the list: its equation is stated, its derivatives agree with differences, its bad calls are refused.
#include "tests/autograd/op_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "engine/parallel.h"
#include "engine/sanitizer.h"

namespace bochner {
namespace {

class EveryOp : public testing::TestWithParam<size_t> {
 protected:
  const OpInfo& op() const { return op_infos()[GetParam()]; }
};

class TwiceDifferentiableOp : public EveryOp {};
class FusedOp : public EveryOp {};

TEST_P(EveryOp, StatesItsEquation) { EXPECT_FALSE(op().equation.empty()); }

TEST_P(EveryOp, HasAtLeastTwentySamples) { EXPECT_GE(op().samples.size(), 20U); }

/// The value of a sample and its gradients under a fixed projection.
std::vector<Tensor> run(const Sample& sample, DType dtype) {
  Tape tape;
  std::vector<Variable> inputs;
  for (const Tensor& input : sample.inputs) {
    inputs.push_back(tape.watch(is_floating(input.dtype()) ? input.cast(dtype) : input));
  }
  const Variable y = sample.apply(inputs);
  std::vector<Tensor> results = {y.value()};
  if (!is_floating(y.value().dtype()) || !y.tracked()) return results;
  const Tensor projection = sample_values(y.shape(), 5, -1, 1).cast(y.dtype());
  for (const Variable& gradient : tape.gradients({y}, {projection}, inputs)) results.push_back(gradient.value());
  return results;
}

// f32 agrees with f64, whose kernels may differ; the error is measured over all of a result.
TEST_P(EveryOp, SinglePrecisionAgreesWithDouble) {
  for (const Sample& sample : op().samples) {
    const std::vector<Tensor> expected = run(sample, DType::f64);
    const std::vector<Tensor> found = run(sample, DType::f32);
    ASSERT_EQ(found.size(), expected.size()) << sample.label;
    for (size_t i = 0; i < found.size(); ++i) {
      if (is_floating(expected[i].dtype()) && op().name != "cast") {
        EXPECT_EQ(found[i].dtype(), DType::f32) << sample.label;
      }
      const std::vector<double> a = found[i].to_vector<double>(), b = expected[i].to_vector<double>();
      ASSERT_EQ(a.size(), b.size()) << sample.label;
      double error = 0, size = 1;
      for (size_t k = 0; k < a.size(); ++k) {
        error += (a[k] - b[k]) * (a[k] - b[k]);
        size += b[k] * b[k];
      }
      EXPECT_LE(std::sqrt(error), 2e-5 * std::sqrt(size)) << sample.label << ", result " << i;
    }
  }
}

TEST_P(EveryOp, GivesTheSameBitsAgainAndOnAnyNumberOfThreads) {
  const int before = threads();
  for (const Sample& sample : op().samples) {
    set_threads(1);
    const std::vector<Tensor> expected = run(sample, DType::f32);
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      const std::vector<Tensor> found = run(sample, DType::f32);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].to_vector<double>(), expected[i].to_vector<double>()) << sample.label << ", " << count;
      }
    }
  }
  set_threads(before);
}

const GradcheckOptions kDifferences = {.entries = kAddressSanitizer ? 2 : 64};

TEST_P(EveryOp, FirstDerivativesAgreeWithDifferences) {
  for (const Sample& sample : op().samples) {
    EXPECT_EQ(gradcheck(sample.apply, sample.inputs, kDifferences), "") << sample.label;
  }
}

TEST_P(TwiceDifferentiableOp, SecondDerivativesAgreeWithDifferences) {
  for (const Sample& sample : op().samples) {
    EXPECT_EQ(gradcheck_twice(sample.apply, sample.inputs, kDifferences), "") << sample.label;
  }
}

TEST_P(FusedOp, EqualsItsComposition) {
  for (const Sample& sample : op().samples) {
    const std::vector<Variable> inputs(sample.inputs.begin(), sample.inputs.end());
    const auto fused = sample.apply(inputs).value().to_vector<double>();
    const auto plain = op().composition(sample, inputs).value().to_vector<double>();
    ASSERT_EQ(fused.size(), plain.size()) << sample.label;
    for (size_t i = 0; i < fused.size(); ++i) {
      ASSERT_NEAR(fused[i], plain[i], 1e-10 * std::max(1.0, std::abs(plain[i]))) << sample.label << " at " << i;
    }
  }
}

TEST_P(EveryOp, RefusesBadCalls) {
  for (const auto& call : op().refused) EXPECT_THROW(call(), Error);
}

std::string op_name(const testing::TestParamInfo<size_t>& tested) { return op_infos()[tested.param].name; }

/// The indices in op_infos() of the ops for which `holds` is true.
template <class Holds>
std::vector<size_t> ops_that(Holds holds) {
  std::vector<size_t> found;
  for (size_t i = 0; i < op_infos().size(); ++i) {
    if (holds(op_infos()[i])) found.push_back(i);
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::Range<size_t>(0, op_infos().size()), op_name);
INSTANTIATE_TEST_SUITE_P(Ops, TwiceDifferentiableOp,
                         testing::ValuesIn(ops_that([](const OpInfo& op) { return op.twice; })), op_name);
INSTANTIATE_TEST_SUITE_P(Ops, FusedOp,
                         testing::ValuesIn(ops_that([](const OpInfo& op) { return op.composition != nullptr; })),
                         op_name);

}  // namespace
}  // namespace bochner
