#include "engine/ops/cross_entropy.h"

#include "engine/ops/unary.h"
#include "tests/engine/ops/oracle.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

TEST(CrossEntropy, EqualsPlainLoops) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const CrossEntropyOptions& options :
         {CrossEntropyOptions{}, CrossEntropyOptions{.smoothing = 0.1}, CrossEntropyOptions{.ignore = 0},
          CrossEntropyOptions{.smoothing = 0.3, .ignore = -100}}) {
      for (const Shape& shape :
           {Shape{4, 5}, Shape{1, 1}, Shape{2, 3, 17}, Shape{1000, 2}, Shape{3, 5000}, Shape{0, 3}}) {
        const Tensor x = strided(shape, dtype, ++seed);
        Shape rows = shape;
        rows.erase(-1);
        Generator generator(++seed);
        const Tensor labels = integers(rows, 0, shape[-1], generator);
        if (options.ignore == -100 && labels.size() > 1) labels.view({-1}).slice(0, 1, 2).fill_(-100);
        const auto c = static_cast<size_t>(shape[-1]);
        const auto xs = x.to_vector<double>();
        const auto label = labels.to_vector<int64_t>();
        double loss = 0;
        double counted = 0;
        for (const int64_t l : label) counted += l != options.ignore;
        Values lse, rest, dx;
        for (size_t i = 0; i < label.size(); ++i) {
          double total = 0;
          for (size_t j = 0; j < c; ++j) total += std::exp(xs[i * c + j]);
          lse.push_back(std::log(total));
          rest.push_back(lse[i] - *std::max_element(&xs[i * c], &xs[i * c] + c));
          const bool counts = label[i] != options.ignore;
          for (size_t j = 0; j < c; ++j) {
            const double hit = static_cast<int64_t>(j) == label[i] ? 1 : 0;
            const double target = (1 - options.smoothing) * hit + options.smoothing / static_cast<double>(c);
            if (counts) loss -= target * (xs[i * c + j] - lse[i]) / counted;
            dx.push_back(counts ? 3 * (std::exp(xs[i * c + j] - lse[i]) - target) / counted : 0);
          }
        }
        const CrossEntropy result = cross_entropy(x, labels, options);
        expect_close(result.loss, {loss}, tolerance_of(dtype), "loss");
        expect_close(result.rest, rest, tolerance_of(dtype), "rest");
        const Tensor g = Tensor::scalar(3, dtype);
        expect_close(cross_entropy_backward(g, x, labels, result.rest, options), dx, tolerance_of(dtype), "dx");
        EXPECT_EQ(cross_entropy(x, options.ignore == -100 ? labels : labels.cast(DType::i32), options).loss.item(),
                  result.loss.item());
      }
    }
  }
}

TEST(CrossEntropy, ALargeLogitAnywhereDoesNotOverflow) {
  for (int64_t place = 0; place < 40; ++place) {
    const int64_t next = (place + 1) % 40;
    const Tensor x = Tensor::zeros({1, 40});
    x.data<float>()[place] = 1e4F;
    x.data<float>()[next] = -1e4F;
    const auto loss = [&](int64_t label) { return cross_entropy(x, Tensor::from<int64_t>({label}, {1})).loss.item(); };
    EXPECT_NEAR(loss(place), 0, 1e-6) << place;
    EXPECT_FLOAT_EQ(static_cast<float>(loss(next)), 2e4F) << place;
  }
}

TEST(CrossEntropy, DoesNotDependOnWhatIsAddedToAllLogits) {
  for (const int64_t classes : {3, 40, 1000}) {
    Generator generator(5);
    const Tensor x = integers({7, classes}, -100, 100, generator).cast(DType::f32) * (1.0 / 64);
    const Tensor labels = integers({7}, 0, classes, generator);
    for (const double smoothing : {0.0, 0.1}) {  // the sums are exact in f32
      const CrossEntropyOptions options{.smoothing = smoothing};
      const CrossEntropy plain = cross_entropy(x, labels, options);
      const CrossEntropy moved = cross_entropy(x + 8192.0, labels, options);
      EXPECT_EQ(moved.loss.item(), plain.loss.item()) << classes;
      const auto gradient = [&](const Tensor& of, const CrossEntropy& made) {
        return cross_entropy_backward(Tensor::scalar(1), of, labels, made.rest, options).to_vector<float>();
      };
      EXPECT_EQ(gradient(x + 8192.0, moved), gradient(x, plain)) << classes;
    }
  }
}

TEST(CrossEntropy, NoRowThatCountsIsNoLoss) {
  const Tensor x = values({2, 3}, DType::f64, 1);
  const Tensor labels = Tensor::full({2}, -1, DType::i64);
  const CrossEntropyOptions options{.ignore = -1};
  const CrossEntropy result = cross_entropy(x, labels, options);
  EXPECT_EQ(result.loss.item(), 0);
  expect_close(cross_entropy_backward(Tensor::scalar(1, DType::f64), x, labels, result.rest, options), Values(6), 0,
               "dx");
}

TEST(CrossEntropy, OtherLossesEqualPlainLoops) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{3, 5}, Shape{1}, Shape{0}, Shape{70000}, Shape{33, 50}}) {
      const Tensor x = strided(shape, dtype, 3);
      Generator generator(4);
      const Tensor t = uniform(shape, generator, 0, 1, DType::f64).cast(dtype);
      const auto xs = x.to_vector<double>();
      const auto ts = t.to_vector<double>();
      const double n = std::max<double>(1, static_cast<double>(xs.size()));
      double binary = 0;
      double squared = 0;
      Values dbinary, dsquared;
      for (size_t i = 0; i < xs.size(); ++i) {
        const double s = 1 / (1 + std::exp(-xs[i]));
        binary -= (ts[i] * std::log(s) + (1 - ts[i]) * std::log(1 - s)) / n;
        squared += (xs[i] - ts[i]) * (xs[i] - ts[i]) / n;
        dbinary.push_back(2 * (s - ts[i]) / n);
        dsquared.push_back(4 * (xs[i] - ts[i]) / n);
      }
      const Tensor g = Tensor::scalar(2, dtype);
      expect_close(binary_cross_entropy(x, t), {binary}, tolerance_of(dtype), "binary");
      expect_close(mean_squared_error(x, t), {squared}, tolerance_of(dtype), "squared");
      expect_close(binary_cross_entropy_backward(g, x, t), dbinary, tolerance_of(dtype), "binary dx");
      expect_close(mean_squared_error_backward(g, x, t), dsquared, tolerance_of(dtype), "squared dx");
    }
  }
}

TEST(CrossEntropy, BytesDoNotDependOnThreads) {
  const Tensor x = values({5000, 37}, DType::f32, 1);
  Generator generator(2);
  const Tensor labels = integers({5000}, 0, 37, generator);
  const Tensor g = Tensor::scalar(1);
  expect_same_bytes([&] {
    const CrossEntropy result = cross_entropy(x, labels, {.smoothing = 0.1});
    return std::vector<Tensor>{result.loss, cross_entropy_backward(g, x, labels, result.rest),
                               binary_cross_entropy(x, x), mean_squared_error(x, x * 0.5)};
  });
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_EQ(test::message_of([&] {
              cross_entropy(x, Tensor::from<int64_t>({0, 3}, {2}));
            }),
            "cross_entropy: the index at 1 is 3, outside [0, 3)");
  EXPECT_THROW(cross_entropy(x, Tensor::from<int64_t>({0, -1}, {2})), Error);
  EXPECT_THROW(cross_entropy(x, Tensor::from<int64_t>({0}, {1})), Error);
  EXPECT_THROW(cross_entropy(x, Tensor::zeros({2})), Error);
  EXPECT_THROW(cross_entropy(x, Tensor::from<int64_t>({0, 1}, {2}), {.smoothing = 2}), Error);
  EXPECT_THROW(binary_cross_entropy(x, Tensor::zeros({3, 2})), Error);
  EXPECT_THROW(mean_squared_error(x, Tensor::zeros({2, 3}, DType::f64)), Error);
}

}  // namespace
}  // namespace bochner
