#include "engine/ops/join.h"

#include <gtest/gtest.h>

#include "tests/engine/ops/counting.h"

namespace bochner {
namespace {

TEST(Concat, JoinsAlongEveryAxis) {
  const Tensor x = counting({2, 3});
  const Tensor y = Tensor::full({2, 1}, 9);
  EXPECT_EQ(concat({x, y}, 1).to_vector<float>(), (std::vector<float>{0, 1, 2, 9, 3, 4, 5, 9}));
  EXPECT_EQ(concat({x, y}, -1).shape(), Shape({2, 4}));
  EXPECT_EQ(concat({x, x}, 0).to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
}

TEST(Concat, UndoesSlicingOfAnyType) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    const Tensor x = counting({3, 5, 4}, dtype);
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t n = x.size(axis);
      const Tensor joined = concat({x.slice(axis, 0, 1), x.slice(axis, 1, n - 1), x.slice(axis, n - 1, n)}, axis);
      EXPECT_EQ(joined.dtype(), dtype);
      EXPECT_EQ(joined.to_vector<double>(), x.to_vector<double>());
    }
  }
}

TEST(Concat, TakesEmptyAndNonContiguousParts) {
  const Tensor x = counting({2, 3});
  const Tensor joined = concat({x.transpose(0, 1), Tensor::zeros({0, 2}), x.view({3, 2})}, 0);
  EXPECT_EQ(joined.to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_FALSE(concat({x}, 0).shares_storage(x));
}

TEST(Concat, RefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_THROW(concat({}, 0), Error);
  EXPECT_THROW(concat({x, counting({3, 3})}, 1), Error);
  EXPECT_THROW(concat({x, counting({2, 3, 1})}, 1), Error);
  EXPECT_THROW(concat({x, x.cast(DType::f64)}, 0), Error);
  EXPECT_THROW(concat({x, x}, 2), Error);
  EXPECT_THROW(concat({Tensor::scalar(1), Tensor::scalar(2)}, 0), Error);
}

TEST(Stack, MakesAnAxis) {
  const Tensor a = Tensor::from<float>({1, 2}, {2});
  const Tensor b = Tensor::from<float>({3, 4}, {2});
  EXPECT_EQ(stack({a, b}).to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(stack({a, b}, 1).to_vector<float>(), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(stack({a, b, a}, -1).shape(), Shape({2, 3}));
  EXPECT_EQ(stack({Tensor::scalar(5), Tensor::scalar(6)}).to_vector<float>(), (std::vector<float>{5, 6}));
  EXPECT_THROW(stack({a, Tensor::zeros({3})}), Error);
  EXPECT_THROW(stack({}), Error);
}

TEST(Pad, FramesEveryAxis) {
  const Tensor y = pad(counting({2, 2}), {1, 0}, {0, 2}, 7);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{7, 7, 7, 7, 0, 1, 7, 7, 2, 3, 7, 7}));
}

TEST(Pad, KeepsWhatLiesInside) {
  const Tensor x = counting({3, 4, 5}).transpose(0, 2);
  const Tensor y = pad(x, {1, 2, 0}, {3, 0, 1}, -1);
  EXPECT_EQ(y.shape(), Shape({9, 6, 4}));
  const Tensor inside = y.slice(0, 1, 6).slice(1, 2, 6).slice(2, 0, 3);
  EXPECT_EQ(inside.to_vector<float>(), x.to_vector<float>());
  inside.fill_(-1);
  for (const float value : y.to_vector<float>()) EXPECT_EQ(value, -1);
}

TEST(Pad, AnEmptyTensorBecomesFrameAlone) {
  EXPECT_EQ(pad(Tensor::zeros({0, 2}), {1, 0}, {1, 0}, 4).to_vector<float>(), std::vector<float>(4, 4.F));
  EXPECT_EQ(pad(Tensor::scalar(3), {}, {}).item(), 3);
}

TEST(Pad, RefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 2});
  EXPECT_THROW(pad(x, {1}, {1}), Error);
  EXPECT_THROW(pad(x, {-1, 0}, {0, 0}), Error);
  EXPECT_THROW(pad(x, {INT64_MAX, 0}, {1, 0}), Error);
}

}  // namespace
}  // namespace bochner
