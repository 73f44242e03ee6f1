// Random numbers on a card equal those of the CPU, bit for bit.
#include <gtest/gtest.h>

#include <limits>

#include "engine/ops/bias_activation.h"
#include "engine/ops/binary.h"
#include "engine/ops/dropout.h"
#include "tests/card.h"
#include "tests/engine/cuda/beside_cpu.h"

namespace bochner {
namespace {

using namespace beside_cpu;  // NOLINT: what this file is written in

TEST(CardOps, RandomNumbersAreTheSameBits) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    for (const uint64_t offset : {0U, 8U, 5U}) {
      const auto run = [&](Device device) {
        Generator generator(77, offset);
        Results results;
        for (const DType dtype : {DType::f32, DType::f64}) {
          results.push_back(uniform({n}, generator, -1, 3, dtype, device));
        }
        results.push_back(bernoulli({n}, 0.3, generator, DType::f32, device));
        results.push_back(bernoulli({n}, 1, generator, DType::boolean, device));
        results.push_back(integers({n}, -5, 1000000007, generator, device));
        results.push_back(dropout_mask({n}, Dropout::at(0.25, Generator(3, offset)), DType::f32, device));
        results.push_back(permutation(n, generator, device));
        return results;
      };
      expect_same("random", run(Device::cuda()), run(Device::cpu()));
      for (const DType dtype : {DType::f32, DType::f64}) {
        Generator a(5, offset);
        Generator b(5, offset);
        const Tensor here = normal({n}, a, 1, 2, dtype);
        const Tensor there = normal({n}, b, 1, 2, dtype, Device::cuda());
        EXPECT_LE(squared_error(there.to_vector<double>(), here.to_vector<double>()),
                  dtype == DType::f32 ? 1e-13 : 1e-28);
      }
    }
  }
}

TEST(CardOps, DropoutIsTheSameBits) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    for (const uint64_t offset : {0U, 8U, 5U, 6U}) {
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        const Tensor x = values({n + 1}, 1, DType::f32).cast(dtype);
        const auto run = [&](Device device) {
          const Dropout drop = Dropout::at(0.25, Generator(3, offset));
          const Tensor there = x.to(device);
          return Results{dropout(there, drop), dropout(there.slice(0, 1, n + 1), drop)};
        };
        expect_same("dropout", run(Device::cuda()), run(Device::cpu()));
      }
    }
  }
}

}  // namespace
}  // namespace bochner
