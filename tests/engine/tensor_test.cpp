#include "engine/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/kernel.h"
#include "engine/ops/binary.h"
#include "engine/sanitizer.h"
#include "tests/engine/ops/counting.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

TEST(Tensor, TransposeIsAViewWithoutACopy) {
  const Tensor x = counting({2, 3});
  const Tensor y = x.transpose(0, 1);
  EXPECT_TRUE(y.shares_storage(x));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Tensor, PartsOfOneTensorArePutTogetherWithoutACopy) {
  const Tensor x = Tensor::arange(2 * 3 * 4).view({2, 3, 4});
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < x.size(axis); ++i) parts.push_back(x.select(axis, i));
    const Tensor whole = Tensor::unselect(parts, axis);
    ASSERT_TRUE(whole.defined()) << axis;
    EXPECT_TRUE(whole.shares_storage(x));
    EXPECT_EQ(whole.shape(), x.shape());
    EXPECT_EQ(whole.to_vector<int64_t>(), x.to_vector<int64_t>());
    std::swap(parts.front(), parts.back());
    EXPECT_FALSE(Tensor::unselect(parts, axis).defined());
  }
  EXPECT_FALSE(Tensor::unselect({x, x}, 0).defined());
  EXPECT_FALSE(Tensor::unselect({x, x.clone()}, 0).defined());
  EXPECT_FALSE(Tensor::unselect({x.select(0, 0)}, 0).defined());
}

TEST(Tensor, SliceWithStepSelectsEveryStepThElement) {
  const Tensor x = counting({7});
  EXPECT_EQ(x.slice(0, 1, 6, 2).to_vector<float>(), (std::vector<float>{1, 3, 5}));
}

TEST(Tensor, ReshapeCopiesOnlyWhereStridesForbidAView) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_TRUE(x.reshape({6, 4}).shares_storage(x));
  EXPECT_TRUE(x.transpose(0, 1).slice(2, 0, 2).unsqueeze(0).reshape({3, 1, 2, 2}).shares_storage(x));
  const Tensor column = x.slice(2, 3, 4);  // (2, 3, 1): the stride of its last axis has no meaning
  EXPECT_EQ(column.reshape({2, 1, 1, 3, 1}).to_vector<float>(), column.clone().to_vector<float>());
  EXPECT_EQ(x.slice(1, 1, 2).reshape({1, 2, 2, 1, 2}).to_vector<float>(), x.slice(1, 1, 2).clone().to_vector<float>());
  const Tensor moved = x.transpose(1, 2).reshape({2, 12});
  EXPECT_FALSE(moved.shares_storage(x));
  EXPECT_EQ(moved.to_vector<float>()[1], 4);
  EXPECT_THROW(x.transpose(1, 2).view({24}), Error);
}

TEST(Tensor, ViewsOfSplitAxesAgreeWithCopies) {
  const Tensor x = counting({4, 6, 5});
  const Tensor part = x.slice(1, 1, 5);
  const Tensor seen = part.view({4, 2, 2, 5});
  EXPECT_TRUE(seen.shares_storage(x));
  EXPECT_EQ(seen.to_vector<float>(), part.clone().view({4, 2, 2, 5}).to_vector<float>());
}

TEST(Tensor, ExpandRepeatsWithStrideZero) {
  const Tensor x = counting({3, 1});
  EXPECT_EQ(x.expand({2, 3, 2}).to_vector<float>(), (std::vector<float>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
}

TEST(Tensor, CastsBetweenAllTypes) {
  const Tensor x = Tensor::from<float>({-1.5F, 0.F, 2.75F}, {3});
  EXPECT_EQ(x.cast(DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{-1, 0, 2}));
  EXPECT_EQ(x.cast(DType::boolean).to_vector<double>(), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(x.cast(DType::bf16).to_vector<float>(), (std::vector<float>{-1.5F, 0.F, 2.75F}));
}

TEST(Tensor, IntegersAreTheNearestThereAre) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from<double>({3e9, -3e9, 1e300, nan, 2147483647, -2147483648.0}, {6});
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(x.cast(DType::i32).to_vector<int64_t>(),
            (std::vector<int64_t>{kMost, -kMost - 1, kMost, 0, kMost, -kMost - 1}));
  EXPECT_EQ(x.cast(DType::i64).to_vector<int64_t>()[2], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(x.cast(DType::u8).to_vector<int64_t>(), (std::vector<int64_t>{255, 0, 255, 0, 255, 0}));
  EXPECT_EQ(less(Tensor::arange(3).cast(DType::i32), 3e9).to_vector<double>(), std::vector<double>(3, 1));
}

TEST(Tensor, IntegersWithoutAQuotientAreErrors) {
  const Tensor x = Tensor::from<int64_t>({7, std::numeric_limits<int64_t>::min()}, {2});
  EXPECT_THROW(div(x, Tensor::from<int64_t>({2, 0}, {2})), Error);
  EXPECT_THROW(div(x, Tensor::from<int64_t>({1, -1}, {2})), Error);
  EXPECT_EQ(div(x.slice(0, 0, 1), Tensor::from<int64_t>({-2}, {1})).to_vector<int64_t>(), std::vector<int64_t>{-3});
  EXPECT_THROW(Tensor().fill_(1), Error);
  EXPECT_THROW(Tensor().copy_(x), Error);
}

TEST(Tensor, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(bfloat16(1.00390625F)), 1.F);        // halfway, to even
  EXPECT_EQ(static_cast<float>(bfloat16(1.01171875F)), 1.015625F);  // halfway, to even
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(NAN))));
}

TEST(Tensor, EmptyAndRankZeroTensorsWork) {
  EXPECT_EQ(Tensor::zeros({0, 3}).size(), 0);
  EXPECT_TRUE(Tensor::zeros({3, 0}).transpose(0, 1).clone().to_vector<float>().empty());
  EXPECT_EQ(Tensor::scalar(2.5).item(), 2.5);
}

TEST(Tensor, ErrorsNameShapesAndRule) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(message_of([&] { x.reshape({4}); }), "reshape: (2, 3) has 6 elements, (4,) has 4");
  EXPECT_EQ(message_of([&] { x.select(1, 3); }), "select: index 3 lies outside axis 1 of (2, 3)");
  const Scope outer("encoder");
  const Scope inner("2");
  EXPECT_EQ(message_of([&] { x.expand({2, 4}); }), "expand: (2, 3) does not broadcast to (2, 4) [encoder.2]");
  EXPECT_THROW(Tensor::empty({int64_t{1} << 40, int64_t{1} << 40}), Error);
}

TEST(Shape, PartsOfIt) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.size(0, 3), 24);
  EXPECT_EQ(shape.size(1, 3), 12);
  EXPECT_EQ(shape.size(1, 1), 1);
  EXPECT_EQ(shape.with_last(7), Shape({2, 3, 7}));
  EXPECT_EQ(shape.place(0), Dims({0, 0, 0}));
  EXPECT_EQ(shape.place(17), Dims({1, 1, 1}));
  EXPECT_EQ(Shape().place(0), Dims());
}

TEST(Tensor, ContiguousLeavesUndefinedUndefined) { EXPECT_FALSE(Tensor().contiguous().defined()); }

void kernel_that_is_not_to_run(const Tensor&, int64_t, const Tensor&) { FAIL(); }

TEST(Kernel, RefusesAnOperandOnAnotherDevice) {
  constexpr Kernel kernel{"fuse", &kernel_that_is_not_to_run, &kernel_that_is_not_to_run};
  EXPECT_EQ(message_of([&] { kernel(Device::cuda(), Tensor(), 1, Tensor::zeros({2})); }),
            "fuse: an operand, f32 (2,) cpu, is not on cuda:0, where the others are; move it with to()");
}

TEST(Allocator, SteadyStateAsksTheSystemForNothing) {
  const auto step = [] {
    const Tensor a = Tensor::zeros({1000, 1000});
    const Tensor b = a.transpose(0, 1).clone();
    return b.slice(0, 0, 10).clone();
  };
  step();
  [[maybe_unused]] const int64_t before = Allocator::of(Device::cpu()).stats().system_allocations;
  for (int i = 0; i < 10; ++i) step();
#if !BOCHNER_ADDRESS_SANITIZER
  EXPECT_EQ(Allocator::of(Device::cpu()).stats().system_allocations, before);
#endif
}

TEST(Allocator, PeakCountsWhatWasHandedOutAtOnce) {
  Allocator& allocator = Allocator::of(Device::cpu());
  allocator.reset_peak();
  const int64_t before = allocator.stats().peak_bytes;
  { const Tensor a = Tensor::zeros({1 << 20}); }
  { const Tensor b = Tensor::zeros({1 << 19}); }
  EXPECT_EQ(allocator.stats().peak_bytes - before, 4 << 20);
}

}  // namespace
}  // namespace bochner
