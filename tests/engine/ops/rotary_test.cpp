#include "engine/ops/rotary.h"

#include <gtest/gtest.h>

#include <complex>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

struct Turned {
  Tensor x, cosines, sines;
};

Turned call(const Shape& shape, DType dtype) {
  Generator draws(1);
  const Tensor angles = normal({shape[1], shape[3] / 2}, draws, 0, 3, DType::f64);
  const DType tables = dtype == DType::bf16 ? DType::f32 : dtype;
  return {normal(shape, draws, 0, 1, DType::f64).cast(dtype), cos(angles).cast(tables), sin(angles).cast(tables)};
}

TEST(RotaryOp, MultipliesPairsAsComplexNumbers) {
  const Shape shape{2, 3, 5, 6};
  const Turned given = call(shape, DType::f64);
  const std::vector<double> x = given.x.to_vector<double>();
  const std::vector<double> cosines = given.cosines.to_vector<double>();
  const std::vector<double> sines = given.sines.to_vector<double>();
  const std::vector<double> y = rotary(given.x, given.cosines, given.sines, 3).to_vector<double>();
  for (size_t vector = 0; vector < 30; ++vector) {
    for (size_t j = 0; j < 3; ++j) {
      const size_t a = 6 * vector + j;
      const size_t angle = vector / 5 % 3 * 3 + j;
      const std::complex<double> by = vector % 5 < 3 ? std::complex<double>(cosines[angle], sines[angle]) : 1.0;
      const std::complex<double> turned = std::complex<double>(x[a], x[a + 3]) * by;
      EXPECT_NEAR(y[a], turned.real(), 1e-15);
      EXPECT_NEAR(y[a + 3], turned.imag(), 1e-15);
    }
  }
}

TEST(RotaryOp, TurnsBack) {
  const Turned given = call({2, 3, 2, 8}, DType::f64);
  const Tensor there = rotary(given.x, given.cosines, given.sines, 2);
  const Tensor back = rotary(there, given.cosines, given.sines, 2, true);
  EXPECT_LT(amax(abs(back - given.x)).item(), 1e-15);
}

TEST(RotaryOp, RoundsOnceInBf16) {
  for (const int64_t dim : {2, 6, 32, 64, 70}) {
    const Turned given = call({2, 3, 4, dim}, DType::bf16);
    const Tensor found = rotary(given.x, given.cosines, given.sines, 3);
    const Tensor wanted = rotary(given.x.cast(DType::f32), given.cosines, given.sines, 3).cast(DType::bf16);
    EXPECT_EQ(found.cast(DType::f32).to_vector<float>(), wanted.cast(DType::f32).to_vector<float>()) << dim;
  }
}

TEST(RotaryOp, DoesNotDependOnThreads) {
  const Turned given = call({3, 700, 6, 32}, DType::f32);
  set_threads(1);
  const std::vector<float> alone = rotary(given.x, given.cosines, given.sines, 4).to_vector<float>();
  set_threads(3);
  EXPECT_EQ(rotary(given.x, given.cosines, given.sines, 4).to_vector<float>(), alone);
  set_threads(0);
}

}  // namespace
}  // namespace bochner
