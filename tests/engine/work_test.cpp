#include "engine/work.h"

#include <gtest/gtest.h>

#include "engine/cpu/parts/limits.h"
#include "engine/ops/linear.h"
#include "engine/ops/matmul.h"
#include "engine/trace.h"

namespace bochner {
namespace {

TEST(Work, AMatrixProductIsTwoOperationsForEachTermAndWhatItMakes) {
  const Tensor a = Tensor::zeros({3, 5, 7});
  const Tensor b = Tensor::zeros({7, 11});
  work::start();
  matmul(a, b);
  const work::Amount amount = work::stop();
  EXPECT_EQ(amount.flops, 2 * 3 * 5 * 7 * 11);
  EXPECT_GE(amount.bytes, 2 * 4 * 3 * 5 * 11);
}

TEST(Work, BackwardOfALinearLayerIsTwiceItsForward) {
  const Tensor x = Tensor::zeros({10, 4});
  const LinearWeights weights{Tensor::zeros({3, 4})};
  work::start();
  linear(x, weights);
  const double forward = work::stop().flops;
  work::start();
  linear_backward(Tensor::zeros({10, 3}), x, {}, weights);
  EXPECT_EQ(work::stop().flops, 2 * forward);
  work::start();
  linear_backward(Tensor::zeros({10, 3}), x, {}, weights, {}, {.w = false});  // of a frozen weight
  EXPECT_EQ(work::stop().flops, forward);
}

TEST(Work, ProductsWithinAnOpAreNotCountedBesideIt) {
  work::start();
  {
    const work::CountedAs outer(10);
    matmul(Tensor::zeros({2, 2}), Tensor::zeros({2, 2}));
    const work::CountedAs inner(20);
  }
  EXPECT_EQ(work::stop().flops, 10);
  work::start();
  matmul(Tensor::zeros({2, 2}), Tensor::zeros({2, 2}));
  EXPECT_EQ(work::stop().flops, 16);
}

TEST(Work, NothingIsCountedUnlessAsked) {
  work::start();
  work::stop();
  matmul(Tensor::zeros({2, 2}), Tensor::zeros({2, 2}));
  EXPECT_EQ(work::stop().flops, 0);
}

TEST(Work, EveryKernelIsASpanOfTheTrace) {
  trace::start();
  matmul(Tensor::zeros({2, 2}), Tensor::zeros({2, 2}));
  trace::stop();
  bool found = false;
  for (const trace::Share& share : trace::shares()) found = found || share.name == "matmul";
  EXPECT_TRUE(found);
}

TEST(Limits, ArePositive) {
  EXPECT_GT(cpu::multiply_add_peak(), 0);
  EXPECT_GT(cpu::bf16_product_peak(), 0);
  EXPECT_GT(cpu::copy_bandwidth(), 0);
}

}  // namespace
}  // namespace bochner
