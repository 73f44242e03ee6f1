#include "engine/ops/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/ops/index.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

constexpr float kPlusInf = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
using Places = std::vector<int64_t>;

TEST(Sort, AgreesWithAStableSortOfTheStandardLibrary) {
  Generator generator(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    for (const int64_t n : {1, 2, 17, 1000}) {
      const Tensor x = integers({3, n}, -20, 20, generator).cast(dtype);  // many ties
      for (const bool descending : {false, true}) {
        const Ordered sorted = sort(x, -1, descending);
        EXPECT_EQ(sorted.values.dtype(), dtype);
        for (int64_t row = 0; row < 3; ++row) {
          const auto values = x.select(0, row).to_vector<double>();
          Places order(values.size());
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            const double left = values[static_cast<size_t>(a)];
            const double right = values[static_cast<size_t>(b)];
            return descending ? left > right : left < right;
          });
          ASSERT_EQ(sorted.indices.select(0, row).to_vector<int64_t>(), order);
        }
        EXPECT_EQ(sorted.values.to_vector<double>(), gather(x, -1, sorted.indices).to_vector<double>());
        EXPECT_EQ(argsort(x, -1, descending).to_vector<int64_t>(), sorted.indices.to_vector<int64_t>());
      }
    }
  }
}

TEST(Sort, OrdersTheWholeRangeOfEachType) {
  const Tensor x = Tensor::from<float>(
      {kNotANumber, -kPlusInf, 1e-45F, 0.F, -0.F, kPlusInf, -1e-45F, -kNotANumber, 3e38F, -3e38F}, {10});
  EXPECT_EQ(argsort(x).to_vector<int64_t>(), (Places{1, 9, 6, 3, 4, 2, 8, 5, 0, 7}));
  EXPECT_EQ(argsort(x.cast(DType::f64)).to_vector<int64_t>(), (Places{1, 9, 6, 3, 4, 2, 8, 5, 0, 7}));
  EXPECT_EQ(argsort(x, 0, true).to_vector<int64_t>(), (Places{0, 7, 5, 8, 2, 3, 4, 6, 9, 1}));
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(argsort(Tensor::from<int64_t>({0, high, -1, low, 1}, {5})).to_vector<int64_t>(), (Places{3, 2, 0, 4, 1}));
  const Tensor narrow = Tensor::from<int32_t>({0, INT32_MAX, -1, INT32_MIN, 1}, {5});
  EXPECT_EQ(argsort(narrow).to_vector<int64_t>(), (Places{3, 2, 0, 4, 1}));
}

TEST(Sort, AnyAxisLayoutAndThreads) {
  Generator generator(2);
  const Tensor x = normal({50, 60, 7}, generator).transpose(0, 2);  // (7, 60, 50)
  for (int axis = 0; axis < 3; ++axis) {
    set_threads(1);
    const Ordered one = sort(x, axis);
    set_threads(3);
    const Ordered three = sort(x, axis);
    EXPECT_EQ(one.values.shape(), x.shape());
    EXPECT_EQ(one.indices.to_vector<int64_t>(), three.indices.to_vector<int64_t>());
    EXPECT_EQ(one.values.to_vector<float>(), gather(x, axis, one.indices).to_vector<float>());
    const auto head = one.values.slice(axis, 0, x.size(axis) - 1).to_vector<float>();
    const auto tail = one.values.slice(axis, 1, x.size(axis)).to_vector<float>();
    for (size_t i = 0; i < head.size(); ++i) ASSERT_LE(head[i], tail[i]);
  }
  set_threads(0);
}

TEST(Topk, IsTheHeadOfTheDescendingOrder) {
  Generator generator(3);
  for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
    const Tensor x = integers({4, 100, 3}, -15, 15, generator).cast(dtype);
    const Ordered all = sort(x, 1, true);
    for (const int64_t k : {1, 2, 50, 99, 100}) {
      const Ordered top = topk(x, k, 1);
      EXPECT_EQ(top.values.shape(), Shape({4, k, 3}));
      EXPECT_EQ(top.indices.to_vector<int64_t>(), all.indices.slice(1, 0, k).to_vector<int64_t>());
      EXPECT_EQ(top.values.to_vector<double>(), all.values.slice(1, 0, k).to_vector<double>());
    }
  }
  EXPECT_EQ(topk(Tensor::zeros({2, 3}), 0).values.shape(), Shape({2, 0}));
}

TEST(Argmax, TakesTheFirstOfTies) {
  const Tensor x = Tensor::from<float>({1, 5, 5, 0, 0, 5}, {2, 3});
  EXPECT_EQ(argmax(x).to_vector<int64_t>(), (Places{1, 2}));
  EXPECT_EQ(argmin(x).to_vector<int64_t>(), (Places{0, 0}));
  EXPECT_EQ(argmax(x, 0).to_vector<int64_t>(), (Places{0, 0, 0}));
  EXPECT_EQ(argmin(x, 0).to_vector<int64_t>(), (Places{1, 1, 0}));
  EXPECT_EQ(argmax(x, 0, true).shape(), Shape({1, 3}));
  EXPECT_EQ(argmax(x, -1).shape(), Shape({2}));
  EXPECT_EQ(argmin(Tensor::from<float>({0.F, -0.F}, {2})).item(), 0);
}

TEST(Argmax, IsTheFirstOfTheOrder) {
  Generator generator(4);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    const Tensor x = integers({20, 100}, -1000, 1000, generator).cast(dtype);
    EXPECT_EQ(argmax(x).to_vector<int64_t>(), argsort(x, -1, true).select(1, 0).to_vector<int64_t>());
    EXPECT_EQ(argmin(x).to_vector<int64_t>(), argsort(x).select(1, 0).to_vector<int64_t>());
  }
}

TEST(Argmax, NanIsTheLargest) {
  const Tensor x = Tensor::from<float>({1, kNotANumber, kPlusInf, kNotANumber}, {4});
  EXPECT_EQ(argmax(x).item(), 1);
  EXPECT_EQ(argmin(x).item(), 0);
  EXPECT_EQ(argmin(Tensor::from<float>({kNotANumber, kNotANumber, 2, -1, -1}, {5})).item(), 3);
  EXPECT_EQ(argmin(Tensor::from<float>({kNotANumber, kNotANumber}, {2})).item(), 0);
  EXPECT_EQ(topk(x, 2).indices.to_vector<int64_t>(), (Places{1, 3}));
  EXPECT_EQ(argmax(Tensor::full({3}, -INFINITY)).item(), 0);
}

TEST(Sort, EmptyAndMistakes) {
  EXPECT_EQ(sort(Tensor::zeros({3, 0})).values.shape(), Shape({3, 0}));
  EXPECT_EQ(sort(Tensor::zeros({0, 3})).indices.shape(), Shape({0, 3}));
  EXPECT_EQ(argmax(Tensor::zeros({0, 3})).shape(), Shape({0}));
  EXPECT_THROW(argmax(Tensor::zeros({3, 0})), Error);
  EXPECT_THROW(argmin(Tensor::zeros({3, 0})), Error);
  EXPECT_THROW(topk(Tensor::zeros({3}), 4), Error);
  EXPECT_THROW(topk(Tensor::zeros({3}), -1), Error);
  EXPECT_THROW(sort(Tensor::scalar(1)), Error);
  EXPECT_THROW(sort(Tensor::zeros({3}, DType::boolean)), Error);
  EXPECT_THROW(argmax(Tensor::zeros({3}, DType::bf16)), Error);
}

}  // namespace
}  // namespace bochner
