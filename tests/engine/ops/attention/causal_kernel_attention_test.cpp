// Properties of the causal form only.
#include "tests/engine/ops/attention/kernel_attention_oracle.h"

namespace bochner::testing_kernel_attention {
namespace {

TEST(CausalKernelAttention, StateIsCarriedAcrossSegments) {
  for (const FeatureMap& map : {maps()[0], maps()[7]}) {
    Problem p = problem({1, 1, 2100, 2100, 4, 4, 6}, {map, 1, true, true, 0}, DType::f64, 8);
    p.keys = padding(1, 2100, 4);
    check_forward(p, 1e-10);
  }
}

TEST(CausalKernelAttention, LaterTokensLeaveNoTraceInEarlierOnes) {
  Problem p =
      problem({1, 1, 200, 200, 8, 8, 16}, {{.kind = Kind::positive, .eps = 1e-3}, 1, true, true, 1e-6}, DType::f64, 4);
  const auto before = p.attend().O.slice(2, 0, 100).to_vector<double>();
  for (int64_t i = 0; i < 8; ++i) fill(p.K.slice(2, 100, 200).select(3, i), i == 0 ? 30 : 0);  // huge features
  fill(p.V.slice(2, 100, 200), 1e9);
  const auto after = p.attend().O.slice(2, 0, 100).to_vector<double>();
  for (size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(after[i], before[i], 1e-11);
}

}  // namespace
}  // namespace bochner::testing_kernel_attention
