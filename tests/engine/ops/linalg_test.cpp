#include "engine/ops/linalg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/unary.h"
#include "engine/parallel.h"
#include "engine/random.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

Tensor transposed(const Tensor& a) { return a.transpose(-1, -2); }

Tensor identity(int64_t n, DType dtype) {
  const Tensor eye = Tensor::zeros({n, n}, dtype);
  for (int64_t i = 0; i < n; ++i) eye.select(0, i).select(0, i).fill_(1);
  return eye;
}

/// The largest difference between two tensors of one shape, the second one broadcast.
double distance(const Tensor& a, const Tensor& b) {
  double worst = 0;
  for (const double d : (a - b).to_vector<double>()) {
    if (!(std::abs(d) <= worst)) worst = std::abs(d);  // NaN too
  }
  return worst;
}

double tolerance(DType dtype) { return dtype == DType::f32 ? 2e-5 : 2e-13; }

class Linalg : public testing::TestWithParam<DType> {
 protected:
  Tensor random(const Shape& shape, double deviation = 1) {
    return normal(shape, generator_, 0, deviation, GetParam());
  }
  /// Positive definite, eigenvalues of about 1 and above.
  Tensor definite(const Shape& batch_and_n) {
    Shape shape = batch_and_n;
    shape.push_back(batch_and_n.back());
    const Tensor b = random(shape, 1 / std::sqrt(static_cast<double>(shape.back())));
    return matmul(b, transposed(b)) + identity(shape.back(), GetParam());
  }
  double close() const { return tolerance(GetParam()); }
  Generator generator_{17};
};

INSTANTIATE_TEST_SUITE_P(Types, Linalg, testing::Values(DType::f32, DType::f64),
                         [](const auto& test) { return std::string(name_of(test.param)); });

const std::vector<Shape> kShapes = {{1, 1},   {1, 5},    {5, 1},       {7, 4},   {4, 7},
                                    {33, 33}, {100, 20}, {2, 3, 6, 4}, {5, 3, 8}};

TEST_P(Linalg, QrRebuildsTheMatrixFromOrthonormalAndTriangularFactors) {
  for (const Shape& shape : kShapes) {
    for (const bool positive : {false, true}) {
      const Tensor a = random(shape);
      const auto [q, r] = qr(a, positive);
      const int64_t k = std::min(shape[-1], shape[-2]);
      ASSERT_EQ(q.size(-1), k);
      EXPECT_LT(distance(matmul(q, r), a), close()) << shape.str();
      EXPECT_LT(distance(matmul(transposed(q), q), identity(k, GetParam())), close()) << shape.str();
      const auto values = r.to_vector<double>();
      for (size_t i = 0; i < values.size(); ++i) {
        const auto column = static_cast<int64_t>(i) % shape[-1];
        const auto row = static_cast<int64_t>(i) / shape[-1] % k;
        if (column < row) {
          EXPECT_EQ(values[i], 0);
        }
        if (column == row && positive) {
          EXPECT_GE(values[i], 0);
        }
      }
    }
  }
}

// With R_ii > 0, E[trace Q] = 0 and E[(trace Q)^2] = 1 hold for Haar; Householder's own signs give a negative trace.
TEST_P(Linalg, SignedQrOfAGaussianMatrixIsHaarDistributed) {
  const int64_t count = 4000, n = 3;
  const Tensor a = random({count, n, n});
  const auto moments = [&](bool positive) {
    double mean = 0, square = 0;
    const auto q = qr(a, positive).q.to_vector<double>();
    for (size_t i = 0; i < q.size(); i += n * n) {
      const double trace = q[i] + q[i + 4] + q[i + 8];
      mean += trace / count;
      square += trace * trace / count;
    }
    return std::pair(mean, square);
  };
  const auto [mean, square] = moments(true);
  EXPECT_NEAR(mean, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(square, 1, 4 * std::sqrt(2. / count));
  EXPECT_GT(std::abs(moments(false).first), 0.3);
}

TEST_P(Linalg, EighRebuildsTheMatrixInAscendingOrder) {
  for (const Shape& shape : std::vector<Shape>{{1, 1}, {6, 6}, {40, 40}, {2, 3, 5, 5}}) {
    const Tensor b = random(shape);
    const Tensor a = b + transposed(b);
    const auto [w, v] = eigh(a);
    EXPECT_LT(distance(matmul(v, w.unsqueeze(-1) * transposed(v)), a), 10 * close()) << shape.str();
    EXPECT_LT(distance(matmul(transposed(v), v), identity(shape[-1], GetParam())), close());
    const auto values = w.to_vector<double>();
    for (size_t i = 1; i < values.size(); ++i) {
      if (static_cast<int64_t>(i) % shape[-1] != 0) {
        EXPECT_LE(values[i - 1], values[i]);
      }
    }
  }
}

TEST_P(Linalg, EighReadsTheLowerTriangle) {
  const Tensor a = Tensor::from<double>({2, 99, 1, 2}, {2, 2}).cast(GetParam());
  const auto values = eigh(a).values.to_vector<double>();
  EXPECT_NEAR(values[0], 1, close());
  EXPECT_NEAR(values[1], 3, close());
}

TEST_P(Linalg, SvdRebuildsTheMatrix) {
  for (const Shape& shape : kShapes) {
    const Tensor a = random(shape);
    const auto [u, s, vt] = svd(a);
    const int64_t k = std::min(shape[-1], shape[-2]);
    EXPECT_LT(distance(matmul(u, s.unsqueeze(-1) * vt), a), 2 * close()) << shape.str();
    EXPECT_LT(distance(matmul(transposed(u), u), identity(k, GetParam())), close()) << shape.str();
    EXPECT_LT(distance(matmul(vt, transposed(vt)), identity(k, GetParam())), close()) << shape.str();
    const auto values = s.to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_GE(values[i], 0);
      if (static_cast<int64_t>(i) % k != 0) {
        EXPECT_LE(values[i], values[i - 1]);
      }
    }
  }
}

TEST_P(Linalg, RankDeficientMatrices) {
  const Tensor a = matmul(random({3, 9, 2}), random({3, 2, 6}));  // rank 2
  const auto [u, s, vt] = svd(a);
  EXPECT_LT(distance(matmul(u, s.unsqueeze(-1) * vt), a), 2 * close());
  EXPECT_LT(distance(s.slice(-1, 2, 6), Tensor::zeros({3, 4}, GetParam())), close());
  EXPECT_LT(distance(matmul(transposed(u), u), identity(6, GetParam())), close());
  const auto [q, r] = qr(a, true);
  EXPECT_LT(distance(matmul(q, r), a), close());
  EXPECT_LT(distance(matmul(transposed(q), q), identity(6, GetParam())), close());
  const Tensor zero = Tensor::zeros({4, 4}, GetParam());
  EXPECT_LT(distance(matmul(qr(zero).q, transposed(qr(zero).q)), identity(4, GetParam())), close());
  EXPECT_EQ(pinv(zero).to_vector<double>(), std::vector<double>(16, 0.));
}

TEST_P(Linalg, PinvSatisfiesPenrosesConditions) {
  for (const Shape& shape : kShapes) {
    for (const bool deficient : {false, true}) {
      Tensor a = random(shape);
      if (deficient && std::min(shape[-1], shape[-2]) > 1) {
        // Columns 0 and last equal, as outer factors: rank one less.
        a = a.clone();
        a.select(-1, 0).copy_(a.select(-1, -1));
      }
      const Tensor p = pinv(a, 1e-4);
      const double eps = 100 * close();
      EXPECT_LT(distance(matmul(matmul(a, p), a), a), eps) << shape.str();
      EXPECT_LT(distance(matmul(matmul(p, a), p), p), eps * 10) << shape.str();
      const Tensor ap = matmul(a, p), pa = matmul(p, a);
      EXPECT_LT(distance(ap, transposed(ap)), eps);
      EXPECT_LT(distance(pa, transposed(pa)), eps);
    }
  }
}

TEST_P(Linalg, CholeskyFactorsAndSolves) {
  for (const Shape& shape : std::vector<Shape>{{1}, {5}, {64}, {2, 3, 6}}) {
    const Tensor a = definite(shape);
    const Tensor l = cholesky(a);
    EXPECT_LT(distance(matmul(l, transposed(l)), a), close() * 5) << shape.str();
    const int64_t n = shape.back();
    const auto values = l.to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / n % n, column = static_cast<int64_t>(i) % n;
      if (column > row) {
        EXPECT_EQ(values[i], 0);
      }
      if (column == row) {
        EXPECT_GT(values[i], 0);
      }
    }
    const Tensor b = random({n, 3});
    EXPECT_LT(distance(matmul(a, cholesky_solve(l, b)), b), close() * 10) << shape.str();
  }
  const Tensor lower_only = Tensor::from<double>({4, 99, 2, 5}, {2, 2}).cast(GetParam());
  EXPECT_EQ(cholesky(lower_only).to_vector<double>(), (std::vector<double>{2, 0, 1, 2}));
}

TEST_P(Linalg, TriangularSolveReadsOneTriangle) {
  const Tensor t = random({2, 6, 6}) + identity(6, GetParam()) * 4.0;
  const Tensor b = random({6, 4});
  const Tensor zeros = Tensor::zeros({6, 6}, GetParam());
  for (const bool lower : {false, true}) {
    Tensor clean = t.clone();
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = 0; j < 6; ++j) {
        if (lower ? j > i : j < i) clean.select(-1, j).select(-1, i).fill_(0);
      }
    }
    EXPECT_LT(distance(matmul(clean, triangular_solve(t, b, lower)), b), 20 * close()) << lower;
    EXPECT_LT(distance(matmul(transposed(clean), triangular_solve(t, b, lower, true)), b), 20 * close()) << lower;
  }
  EXPECT_NE(message_of([&] { triangular_solve(zeros, b); }).find("singular"), std::string::npos);
}

TEST_P(Linalg, SolveBroadcastsItsBatch) {
  for (const Shape& shape : std::vector<Shape>{{1, 1}, {20, 20}, {3, 1, 7, 7}}) {
    const Tensor a = random(shape) + identity(shape[-1], GetParam()) * 5.0;
    const Tensor b = random({2, shape[-1], 4});
    EXPECT_LT(distance(matmul(a, solve(a, b)), b), 20 * close()) << shape.str();
  }
}

TEST_P(Linalg, LeastSquaresSatisfiesTheNormalEquations) {
  for (const Shape& shape : kShapes) {
    const Tensor a = random(shape);
    const Tensor b = random({shape[-2], 2});
    for (const double ridge : {0.0, 0.5}) {
      const Tensor x = least_squares(a, b, ridge);
      // A^T (A x - b) + ridge x = 0
      const Tensor residual = matmul(transposed(a), matmul(a, x) - b) + x * ridge;
      EXPECT_LT(distance(residual, Tensor::zeros({1}, GetParam())), 200 * close()) << shape.str();
    }
  }
  // The shortest of the minimisers of a rank-deficient problem: for (1 1) x = 2 it is (1, 1).
  const Tensor x = least_squares(Tensor::full({1, 2}, 1, GetParam()), Tensor::full({1, 1}, 2, GetParam()));
  EXPECT_LT(distance(x, Tensor::full({2, 1}, 1, GetParam())), close());
}

// The condition of A^T A would be 1e12 here, beyond f32 altogether.
TEST_P(Linalg, LeastSquaresKeepsTheConditionOfTheMatrix) {
  const DType dtype = GetParam();
  const double small = dtype == DType::f32 ? 1e-3 : 1e-6;
  const Tensor s = Tensor::from<double>({1, 0.1, small}, {3}).cast(dtype);
  const Tensor a = matmul(qr(random({50, 3})).q, s.unsqueeze(-1) * qr(random({3, 3})).q);
  const Tensor truth = Tensor::from<double>({1, -2, 3}, {3, 1}).cast(dtype);
  EXPECT_LT(distance(least_squares(a, matmul(a, truth)), truth), 10 * close() / small);
}

TEST_P(Linalg, ReadsAnyLayoutAndKeepsItsInput) {
  const Tensor a = random({6, 4, 5}).permute({2, 0, 1});  // (5, 6, 4)
  const auto before = a.to_vector<double>();
  EXPECT_EQ(qr(a).q.to_vector<double>(), qr(a.contiguous()).q.to_vector<double>());
  EXPECT_EQ(svd(a).s.to_vector<double>(), svd(a.contiguous()).s.to_vector<double>());
  const Tensor square = random({4, 4});
  const auto square_before = square.to_vector<double>();
  eigh(square);
  solve(square, random({4, 1}));
  EXPECT_EQ(square.to_vector<double>(), square_before);
  EXPECT_EQ(a.to_vector<double>(), before);
}

TEST_P(Linalg, BitsDoNotDependOnThreads) {
  const Tensor a = random({9, 30, 20});
  const auto results = [&] {
    std::vector<std::vector<double>> all{qr(a).q.to_vector<double>(), svd(a).u.to_vector<double>(),
                                         eigh(matmul(transposed(a), a)).vectors.to_vector<double>()};
    return all;
  };
  set_threads(1);
  const auto one = results();
  set_threads(3);
  EXPECT_EQ(results(), one);
  set_threads(0);
}

TEST_P(Linalg, EmptyMatricesAndBatches) {
  const DType dtype = GetParam();
  for (const Shape& shape : std::vector<Shape>{{0, 3}, {3, 0}, {0, 0}, {0, 4, 3}}) {
    const Tensor a = Tensor::zeros(shape, dtype);
    EXPECT_EQ(matmul(qr(a).q, qr(a).r).shape(), shape);
    EXPECT_EQ(svd(a).s.size(), 0);
    EXPECT_EQ(pinv(a).shape(), transposed(a).shape());
  }
  EXPECT_EQ(eigh(Tensor::zeros({0, 0}, dtype)).values.shape(), Shape({0}));
  EXPECT_EQ(cholesky(Tensor::zeros({0, 0}, dtype)).shape(), Shape({0, 0}));
  EXPECT_EQ(solve(Tensor::zeros({2, 0, 0}, dtype), Tensor::zeros({0, 5}, dtype)).shape(), Shape({2, 0, 5}));
  EXPECT_EQ(least_squares(Tensor::zeros({0, 2}, dtype), Tensor::zeros({0, 3}, dtype)).to_vector<double>(),
            std::vector<double>(6, 0.));
}

TEST_P(Linalg, NonFiniteInputIsRefusedWithItsPlace) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
    const Tensor a = identity(4, GetParam()).expand({3, 4, 4}).clone();
    a.select(0, 1).select(0, 2).select(0, 3).fill_(bad);
    const Tensor b = Tensor::zeros({4, 1}, GetParam());
    const std::vector<std::function<void()>> calls = {[&] { qr(a); },
                                                      [&] { eigh(a); },
                                                      [&] { svd(a); },
                                                      [&] { pinv(a); },
                                                      [&] { cholesky(a); },
                                                      [&] { triangular_solve(a, b); },
                                                      [&] { solve(a, b); },
                                                      [&] { solve(identity(4, GetParam()), a.select(0, 1)); },
                                                      [&] { least_squares(a, b); }};
    for (const auto& call : calls)
      EXPECT_NE(message_of(call).find("must be finite"), std::string::npos) << message_of(call);
    EXPECT_NE(message_of([&] { svd(a); }).find("(1, 2, 3) of (3, 4, 4)"), std::string::npos);
  }
}

TEST_P(Linalg, MistakesAreRefused) {
  const DType dtype = GetParam();
  const Tensor wide = Tensor::zeros({2, 3}, dtype);
  EXPECT_THROW(qr(Tensor::zeros({3}, dtype)), Error);
  EXPECT_THROW(qr(Tensor::zeros({3, 3}, DType::i64)), Error);
  EXPECT_THROW(eigh(wide), Error);
  EXPECT_THROW(cholesky(wide), Error);
  EXPECT_THROW(solve(wide, wide), Error);
  EXPECT_THROW(solve(identity(3, dtype), wide), Error);
  EXPECT_THROW(least_squares(wide, Tensor::zeros({3, 1}, dtype)), Error);
  EXPECT_THROW(least_squares(wide, Tensor::zeros({2, 1}, dtype), -1), Error);
  const Tensor batch = identity(3, dtype).expand({5, 3, 3}).clone();
  batch.select(0, 2).select(0, 1).select(0, 1).fill_(-1);
  batch.select(0, 4).select(0, 0).select(0, 0).fill_(-1);
  EXPECT_NE(message_of([&] { cholesky(batch); }).find("matrix 2 of the batch"), std::string::npos);
  EXPECT_NE(message_of([&] {
              solve(Tensor::full({3, 3}, 1, dtype), Tensor::zeros({3, 1}, dtype));
            }).find("singular"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner
