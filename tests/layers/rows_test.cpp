// Rows of frequencies, and the matrices that the Nystrom methods invert, in addition to the Monte-Carlo tests of
// tests/layers/spectral/kernels_test.cpp.
#include <gtest/gtest.h>

#include "autograd/fused/gaussian_kernel.h"
#include "engine/ops/binary.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/attention/gaussian.h"
#include "layers/spectral/generator.h"
#include "layers/spectral/orthogonal.h"

namespace bochner {
namespace {

TEST(Spectral, BlocksOfRowsAreOrthonormal) {
  Generator generator(4);
  for (const auto& make : {haar_rows, hadamard_rows, givens_rows}) {
    const Tensor rows = make(20, 8, generator).cast(DType::f64);  // two blocks and a half
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 8}, {8, 16}, {16, 20}}) {
      const Tensor block = rows.slice(0, begin, end);
      const Tensor product = matmul(block, block.transpose(0, 1));
      EXPECT_LT(amax(abs(product - identity(end - begin, DType::f64, Device::cpu()))).item(), 1e-6);
    }
  }
}

TEST(Spectral, FrequenciesOfEachMatrixHaveTheMomentsOfTheNormal) {
  using Matrix = OrthogonalOptions::Matrix;
  for (const Matrix matrix : {Matrix::haar, Matrix::hadamard, Matrix::givens}) {
    for (const int64_t dim : {3, 64}) {  // 3 is padded to 4 by hadamard
      Generator init(5);
      OrthogonalFrequencies made({}, 20000, dim, {.matrix = matrix}, {0, false}, init);
      Context context{init, false};
      const Tensor w = made.frequencies(context).values.value().cast(DType::f64);
      EXPECT_NEAR(mean(square(w)).item(), 1, 0.05) << static_cast<int>(matrix) << " " << dim;
      if (dim == 3) continue;
      // 3 for a normal; entries of a single size would give 1, and rows that were hardly rotated 66.
      const double fourth = mean(square(square(w))).item();
      EXPECT_GT(fourth, 2.5) << static_cast<int>(matrix);
      EXPECT_LT(fourth, matrix == Matrix::givens ? 8 : 3.5) << static_cast<int>(matrix);
    }
  }
}

TEST(Spectral, GeneratedFrequenciesLieWithinTanh) {
  Generator init(2);
  GeneratedFrequencies network({}, 32, 6, {}, {0, false}, init);
  Generator noise(1);
  Context training{noise, true};
  Context evaluation{noise, false};
  const Tensor mean = network.state().at("norms.0.running_mean").clone();
  const Tensor Omega = network.frequencies(training).values.value();
  EXPECT_EQ(Omega.shape(), Shape({1, 32, 6}));
  EXPECT_LT(amax(abs(Omega)).item(), 1);
  EXPECT_NE(network.state().at("norms.0.running_mean").to_vector<float>(), mean.to_vector<float>());
  EXPECT_EQ(network.frequencies(evaluation).values.value().to_vector<float>(),
            network.frequencies(evaluation).values.value().to_vector<float>());
  EXPECT_THROW(GeneratedFrequencies({}, 1, 6, {}, {0, false}, init), Error);
}

TEST(Nystrom, TheNormalisedKernelMatrixHasSingularValuesUpToOne) {  // SKY Lemma 3
  Generator generator(12);
  for (const double spread : {0.1, 1.0, 3.0}) {
    const Tensor z = normal({1, 1, 20, 5}, generator, 0, spread, DType::f64);
    const Tensor W = gaussian_kernel(Variable(z), Variable(z)).value() + identity(20, DType::f64, Device::cpu()) * 0.1;
    const Tensor root = sqrt(sum(W, {-1}, true));
    const Tensor values = eigh((W / root / root.transpose(-2, -1)).view({20, 20})).values;
    EXPECT_GT(amin(values).item(), 0);
    EXPECT_NEAR(amax(values).item(), 1, 1e-12);  // the largest is 1, by Perron and Frobenius
  }
}

TEST(Nystrom, SixIterationsDampSmallEigenvalues) {
  // lambda v after 4, 6, 8 iterations from v = lambda.
  const std::vector<std::vector<double>> table = {{0.1, 0.669, 1.000, 1},         {0.05, 0.243, 0.942, 1},
                                                  {0.03, 0.0955, 0.649, 1},       {0.01, 0.0111, 0.111, 0.707},
                                                  {0.003, 0.0010, 0.0106, 0.106}, {0.001, 1.1e-4, 0.0012, 0.0124}};
  for (const std::vector<double>& row : table) {
    const Tensor A = Tensor::full({1, 1}, row[0], DType::f64);
    const Variable one = Tensor::full({1, 1}, 1, DType::f64);
    for (int i = 0; i < 3; ++i) {
      const double found = row[0] * iterative_inverse(Variable(A), one, 4 + 2 * i).item();
      EXPECT_NEAR(found, row[static_cast<size_t>(1 + i)], 0.011 * row[static_cast<size_t>(1 + i)] + 5e-5);
    }
  }
}

// SKY §4.5: with every row of (Q; K) among the landmarks, the approximate matrix of softmax is the matrix itself, in
// each example and head and where keys are masked.
TEST(Nystrom, SkyformersSoftmaxIsSoftmaxWithAllLandmarks) {
  Generator generator(5);
  const Shape shape{2, 2, 6, 4};
  const Tensor Q = normal(shape, generator, 0, 1, DType::f64), K = normal(shape, generator, 0, 1, DType::f64),
               V = normal(shape, generator, 0, 1, DType::f64);
  const Mask mask{
      Tensor::from<bool>({true, true, true, true, true, true, true, true, true, true, false, false}, {2, 6}), false};
  const auto output = [&](const MechanismOptions& options) {
    Generator noise(7);
    Context context{noise, false};
    return make_mechanism({}, 2, 4, options, noise)->forward(Q, K, V, mask, context).value();
  };
  const Tensor exact = output("softmax");
  const auto apart = [&](int64_t landmarks) {
    const MechanismOptions options("skyformer",
                                   {{"features", landmarks}, {"exact-inverse", true}, {"kernel", "softmax"}});
    return amax(abs(output(options) - exact).slice(2, 0, 4)).item();
  };
  EXPECT_LT(apart(200), 1e-6);
  EXPECT_GT(apart(1), 1e-3);
}

}  // namespace
}  // namespace bochner
