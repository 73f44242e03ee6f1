// Every op of the list: its equation is stated, its derivatives agree with differences, its bad calls are refused.
#include "autograd/op_info.h"

#include <gtest/gtest.h>

#include "autograd/gradcheck.h"

namespace bochner {
namespace {

class EveryOp : public testing::TestWithParam<size_t> {
 protected:
  const OpInfo& op() const { return op_infos()[GetParam()]; }
};

TEST_P(EveryOp, StatesItsEquation) { EXPECT_FALSE(op().equation.empty()); }

TEST_P(EveryOp, HasAtLeastTwentySamples) { EXPECT_GE(op().samples.size(), 20U); }

TEST_P(EveryOp, FirstDerivativesAgreeWithDifferences) {
  for (const Sample& sample : op().samples) EXPECT_EQ(gradcheck(sample.apply, sample.inputs), "") << sample.label;
}

TEST_P(EveryOp, SecondDerivativesAgreeWithDifferences) {
  if (!op().twice) GTEST_SKIP() << "this op has first derivatives only";
  for (const Sample& sample : op().samples) EXPECT_EQ(gradcheck_twice(sample.apply, sample.inputs), "") << sample.label;
}

TEST_P(EveryOp, EqualsItsComposition) {
  if (!op().composition) GTEST_SKIP() << "this op is not fused";
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

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::Range<size_t>(0, op_infos().size()), op_name);

}  // namespace
}  // namespace bochner
