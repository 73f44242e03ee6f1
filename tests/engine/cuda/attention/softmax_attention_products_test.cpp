// Softmax attention with few queries or few keys, which a card computes by products.
#include <gtest/gtest.h>

#include <utility>

#include "engine/work.h"
#include "tests/engine/cuda/attention/attended.h"

namespace bochner {
namespace {

using attended::attend;
using attended::Case;

TEST(SoftmaxAttentionOnACard, WithAShortSideEqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{1, 512}, {130, 1101}, {800, 3}, {2000, 128}}) {
    for (const bool masked : {false, true}) {
      const Case c{queries, keys, 5, 5, false, masked, 0, 0.7};
      const auto expected = attend(Device::cpu(), DType::f64, c);
      for (const DType dtype : {DType::f64, DType::f32}) {
        const auto found = attend(Device::cuda(), dtype, c);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_LE(testing_card::squared_error(found[i], expected[i]), dtype == DType::f64 ? 1e-20 : 1e-7)
              << c.name() << ", result " << i;
        }
      }
    }
  }
}

double operations(Device device, const Case& c) {
  work::start();
  attend(device, DType::f32, c);
  return work::stop().flops;
}

// The second one is not of this kind, but its gradient of queries is a product.
TEST(SoftmaxAttentionOnACard, CountsItsOperationsOnce) {
  BOCHNER_NEEDS_CARD();
  for (const Case& c : {Case{800, 3, 5, 5, false, false, 0, 0.7}, Case{130, 200, 64, 64, true, true, 0, 0.125}}) {
    EXPECT_EQ(operations(Device::cuda(), c), operations(Device::cpu(), c)) << c.name();
    EXPECT_GT(operations(Device::cpu(), c), 0) << c.name();
  }
}

}  // namespace
}  // namespace bochner
