// Softmax attention in f32 on a card, over several tiles of queries and keys.
#include <gtest/gtest.h>

#include "engine/cuda/attention/softmax/ways.h"
#include "tests/engine/cuda/attention/attended.h"

namespace bochner {
namespace {

using attended::attend;
using attended::Case;

TEST(SoftmaxAttentionOnACard, InF32EqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const Case& c : {Case{130, 200, 64, 64, false, false, 0, 0.125}, Case{130, 200, 64, 64, true, true, 0, 0.125},
                        Case{200, 130, 64, 64, true, false, 0.3, 0.125}, Case{257, 65, 32, 32, false, true, 0.3, 0.3},
                        Case{128, 192, 5, 40, false, false, 0.5, -0.4}, Case{70, 300, 33, 7, true, true, 0.2, 0.2},
                        Case{64, 64, 16, 32, true, false, 0, 0.25}, Case{3, 129, 1, 1, false, true, 1, 3},
                        Case{66, 70, 64, 65, false, true, 0, 0.125}}) {
    const auto expected = attend(Device::cpu(), DType::f64, c);
    const auto found = attend(Device::cuda(), DType::f32, c);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(testing_card::squared_error(found[i], expected[i]), 1e-7) << c.name() << ", result " << i;
    }
    // The same, with dS in memory for only a few examples, heads or queries at a time.
    for (const int64_t pairs : {300000, 66000, 9000}) {
      const cuda::WithSoftmaxWays few({.pairs_in_memory = pairs});
      const auto in_parts = attend(Device::cuda(), DType::f32, c);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LE(testing_card::squared_error(in_parts[i], found[i]), 1e-7) << c.name() << ", " << pairs << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace bochner
