#include "engine/ops/index.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/parallel.h"
#include "engine/random.h"
#include "tests/engine/ops/counting.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

Tensor indices(const std::vector<int64_t>& values, const Shape& shape) { return Tensor::from(values, shape); }

TEST(Take, ChoosesRowsOfATable) {
  const Tensor table = counting({4, 3});
  const Tensor y = take(table, indices({2, 0, 2, 3}, {2, 2}));
  EXPECT_EQ(y.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{6, 7, 8, 0, 1, 2, 6, 7, 8, 9, 10, 11}));
}

TEST(Take, AnyAxisTypeAndLayout) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64, DType::u8}) {
    const Tensor x = counting({3, 4, 5}, dtype).transpose(0, 1);  // (4, 3, 5)
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor index = indices({2, 2, 0, 1}, {4});
      const Tensor y = take(x, index, axis);
      EXPECT_EQ(y.dtype(), dtype);
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(y.select(axis, i).to_vector<double>(),
                  x.select(axis, index.to_vector<int64_t>()[static_cast<size_t>(i)]).to_vector<double>());
      }
    }
  }
}

TEST(Take, ARankZeroIndexRemovesTheAxis) {
  const Tensor x = counting({3, 4});
  EXPECT_EQ(take(x, Tensor::scalar(2, DType::i64), 1).to_vector<float>(), (std::vector<float>{2, 6, 10}));
}

TEST(Take, EmptyIndexAndEmptyTable) {
  EXPECT_EQ(take(counting({3, 4}), Tensor::zeros({0}, DType::i64)).shape(), Shape({0, 4}));
  EXPECT_EQ(take(Tensor::zeros({0, 4}), Tensor::zeros({0}, DType::i64)).shape(), Shape({0, 4}));
  EXPECT_EQ(take(Tensor::zeros({3, 0}), indices({1, 2}, {2})).shape(), Shape({2, 0}));
  EXPECT_THROW(take(Tensor::zeros({0, 4}), indices({0}, {1})), Error);
}

TEST(Take, ErrorsNamePlaceAndValue) {
  const Tensor x = counting({4, 3});
  EXPECT_EQ(message_of([&] {
              take(x, indices({0, 1, 2, 3, 0, 4}, {2, 3}));
            }),
            "take: the index at (1, 2) of (2, 3) is 4, outside [0, 4)");
  EXPECT_EQ(message_of([&] {
              take(x, indices({0, -1}, {2}), 1);
            }),
            "take: the index at (1,) of (2,) is -1, outside [0, 3)");
  EXPECT_NE(message_of([&] { take(x, Tensor::zeros({2})); }).find("cast()"), std::string::npos);
  EXPECT_THROW(take(x, indices({0}, {1}), 2), Error);
}

TEST(Take, TheFirstOfManyBadIndicesIsNamedForAnyNumberOfThreads) {
  const Tensor index = Tensor::zeros({100000}, DType::i64);
  index.slice(0, 54321, 100000).fill_(7);
  for (const int count : {1, 3}) {
    set_threads(count);
    EXPECT_NE(message_of([&] { take(counting({4, 3}), index); }).find("(54321,)"), std::string::npos);
  }
  set_threads(0);
}

TEST(Gather, ChoosesOneElementPerPlace) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(gather(x, 1, indices({2, 0, 1, 1}, {2, 2})).to_vector<float>(), (std::vector<float>{2, 0, 4, 4}));
  EXPECT_EQ(gather(x, 0, indices({1, 0, 1}, {1, 3})).to_vector<float>(), (std::vector<float>{3, 1, 5}));
}

TEST(Gather, BroadcastsIndexAndTensor) {
  const Tensor x = counting({2, 4, 3});
  const Tensor rows = indices({3, 0, 1, 1}, {2, 2, 1});  // whole rows
  const Tensor y = gather(x, 1, rows);
  EXPECT_EQ(y.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{9, 10, 11, 0, 1, 2, 15, 16, 17, 15, 16, 17}));
  EXPECT_EQ(y.to_vector<float>(), gather(x, 1, rows.expand({2, 2, 3}).contiguous()).to_vector<float>());
  const Tensor shared = gather(counting({1, 4}), 1, indices({3, 2, 1, 0}, {2, 2}));
  EXPECT_EQ(shared.to_vector<float>(), (std::vector<float>{3, 2, 1, 0}));
}

TEST(Gather, ReadsAnyStrides) {
  const Tensor x = counting({5, 6, 7}).transpose(0, 2).slice(1, 1, 6, 2);  // (7, 3, 5)
  Generator generator(1);
  for (int axis = 0; axis < 3; ++axis) {
    Shape shape = x.shape();
    shape[axis] = 4;
    const Tensor index = integers(shape, 0, x.size(axis), generator);
    EXPECT_EQ(gather(x, axis, index).to_vector<float>(), gather(x.contiguous(), axis, index).to_vector<float>());
  }
}

TEST(Gather, RefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_THROW(gather(x, 1, indices({0, 1}, {2})), Error);
  EXPECT_THROW(gather(x, 1, Tensor::zeros({3, 1}, DType::i64)), Error);
  EXPECT_THROW(gather(x, 1, indices({0, 3}, {2, 1})), Error);
  EXPECT_THROW(gather(x, 1, Tensor::zeros({2, 1}, DType::i32)), Error);
  EXPECT_EQ(gather(x, 1, Tensor::zeros({2, 0}, DType::i64)).shape(), Shape({2, 0}));
}

/// <gather(x), s> = <x, scatter_add(s)>, for small integers exactly: the definition of an adjoint.
TEST(ScatterAdd, IsTheAdjointOfGather) {
  Generator generator(3);
  const Tensor x = integers({4, 6, 5}, -9, 10, generator).cast(DType::f64);
  for (int axis = 0; axis < 3; ++axis) {
    for (const bool whole_rows : {false, true}) {
      Shape shape = x.shape();
      shape[axis] = 9;
      Shape index_shape = shape;
      for (int a = axis + 1; a < 3 && whole_rows; ++a) index_shape[a] = 1;
      const Tensor index = integers(index_shape, 0, x.size(axis), generator);
      const Tensor s = integers(shape, -9, 10, generator).cast(DType::f64);
      const auto chosen = gather(x, axis, index).to_vector<double>();
      const auto terms = s.to_vector<double>();
      const auto spread = scatter_add(x.shape(), axis, index, s).to_vector<double>();
      const auto values = x.to_vector<double>();
      double left = 0, right = 0;
      for (size_t i = 0; i < chosen.size(); ++i) left += chosen[i] * terms[i];
      for (size_t i = 0; i < values.size(); ++i) right += values[i] * spread[i];
      EXPECT_EQ(left, right) << axis << whole_rows;
      EXPECT_EQ(spread, scatter_add(x.shape(), axis, index.expand(shape).contiguous(), s).to_vector<double>());
    }
  }
}

TEST(TakeAdd, IsTheAdjointOfTake) {
  Generator generator(4);
  const Tensor x = integers({4, 6, 5}, -9, 10, generator).cast(DType::f32);
  for (int axis = 0; axis < 3; ++axis) {
    const Tensor index = integers({3, 7}, 0, x.size(axis), generator);
    const Tensor taken = take(x, index, axis);
    const Tensor s = integers(taken.shape(), -9, 10, generator).cast(DType::f32);
    const auto chosen = taken.to_vector<double>();
    const auto terms = s.to_vector<double>();
    const auto spread = take_add(x.shape(), index, s, axis).to_vector<double>();
    const auto values = x.to_vector<double>();
    double left = 0, right = 0;
    for (size_t i = 0; i < chosen.size(); ++i) left += chosen[i] * terms[i];
    for (size_t i = 0; i < values.size(); ++i) right += values[i] * spread[i];
    EXPECT_EQ(left, right) << axis;
  }
}

TEST(TakeAdd, AddsToWhatIsThereInAnyLayout) {
  const Tensor y = Tensor::full({2, 3}, 10, DType::i64);
  take_add_(y.transpose(0, 1), indices({2, 0, 2}, {3}), Tensor::from<int64_t>({1, 2, 3, 4, 5, 6}, {3, 2}));
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{13, 10, 16, 14, 10, 18}));
  const Tensor own = counting({3});
  take_add_(own, indices({2, 1, 0}, {3}), own);  // terms are read before anything is written
  EXPECT_EQ(own.to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

// Terms of very different sizes: any other order of addition gives other bits.
TEST(TakeAdd, AddsInOrderForAnyNumberOfThreads) {
  Generator generator(5);
  const int64_t rows = 5000, dim = 70, bins = 11;
  const Tensor index = integers({rows}, 0, bins, generator);
  const Tensor s = normal({rows, dim}, generator, 0, 1e4);
  const auto chosen = index.to_vector<int64_t>();
  const auto terms = s.to_vector<float>();
  std::vector<float> expected(static_cast<size_t>(bins * dim));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < dim; ++c) {
      expected[static_cast<size_t>(chosen[static_cast<size_t>(i)] * dim + c)] +=
          terms[static_cast<size_t>(i * dim + c)];
    }
  }
  for (const int count : {1, 2, 5}) {
    set_threads(count);
    EXPECT_EQ(take_add({bins, dim}, index, s).to_vector<float>(), expected);
    EXPECT_EQ(scatter_add({bins, dim}, 0, index.unsqueeze(1), s).to_vector<float>(), expected);
    EXPECT_EQ(scatter_add({bins, dim}, 0, index.unsqueeze(1).expand({rows, dim}).contiguous(), s).to_vector<float>(),
              expected);
  }
  set_threads(0);
}

// 256 + 1 rounds to 256 in bf16, so a sum of 300 ones in bf16 would stay at 256.
TEST(Index, TermsInBf16AreAddedUpInF32) {
  const Tensor ones = Tensor::full({300, 1}, 1, DType::bf16);
  const Tensor places = Tensor::zeros({300}, DType::i64);
  for (const Tensor& y : {take_add({2, 1}, places, ones), scatter_add({2, 1}, 0, places.unsqueeze(1), ones)}) {
    EXPECT_EQ(y.dtype(), DType::bf16);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{300, 0}));
  }
}

TEST(ScatterAdd, EmptyTermsAndMistakes) {
  EXPECT_EQ(take_add({3}, Tensor::zeros({0}, DType::i64), Tensor::zeros({0})).to_vector<float>(),
            (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(scatter_add({3, 0}, 0, Tensor::zeros({2, 1}, DType::i64), Tensor::zeros({2, 0})).size(), 0);
  const Tensor y = Tensor::zeros({3, 2});
  EXPECT_THROW(take_add_(y, indices({0, 3}, {2}), Tensor::zeros({2, 2})), Error);
  EXPECT_THROW(take_add_(y, indices({0, 1}, {2}), Tensor::zeros({2, 3})), Error);
  EXPECT_THROW(take_add_(y, indices({0, 1}, {2}), Tensor::zeros({2, 2}, DType::f64)), Error);
  EXPECT_THROW(scatter_add_(y, 0, indices({0, 1}, {2, 1}), Tensor::zeros({2, 3})), Error);
  EXPECT_THROW(scatter_add_(y, 0, indices({0, 1, 2}, {3, 1}), Tensor::zeros({2, 2})), Error);
  EXPECT_THROW(scatter_add_(y, 0, indices({0, 1}, {2}), Tensor::zeros({2, 2})), Error);
  EXPECT_THROW(take_add({2}, indices({0}, {1}), Tensor::zeros({1}, DType::u8)), Error);
}

TEST(OneHot, MarksTheClass) {
  const Tensor y = one_hot(indices({1, 0, 2}, {3}), 3, DType::f64);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(one_hot(Tensor::scalar(1, DType::i64), 2).to_vector<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(one_hot(Tensor::zeros({2, 0}, DType::i64), 5).shape(), Shape({2, 0, 5}));
  EXPECT_EQ(one_hot(Tensor::zeros({0}, DType::i64), 0).shape(), Shape({0, 0}));
  EXPECT_THROW(one_hot(indices({3}, {1}), 3), Error);
  EXPECT_THROW(one_hot(indices({0}, {1}), -1), Error);
}

}  // namespace
}  // namespace bochner
