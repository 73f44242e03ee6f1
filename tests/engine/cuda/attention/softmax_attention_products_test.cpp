// Softmax attention with few queries or few keys: on a card it is made of products.
#include <gtest/gtest.h>

#include <utility>

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

}  // namespace
}  // namespace bochner
