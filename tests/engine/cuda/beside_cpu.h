// Ops on a card compared with the same ops on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/random.h"
#include "tests/card.h"

namespace bochner::beside_cpu {

using Results = std::vector<Tensor>;
using testing_card::squared_error;

inline Tensor values(const Shape& shape, uint64_t seed, DType dtype = DType::f64) {
  Generator generator(seed);
  return normal(shape, generator, 0, 1, DType::f64).cast(dtype);
}

/// Compares f(inputs) on a card with the CPU, up to the rounding of f64 and of f32.
inline void expect_equal(const std::string& what, const std::vector<Tensor>& inputs,
                         const std::function<Results(const std::vector<Tensor>&)>& f) {
  const Results expected = f(inputs);
  for (const DType dtype : {DType::f64, DType::f32}) {
    std::vector<Tensor> moved;
    for (const Tensor& x : inputs) moved.push_back((is_floating(x.dtype()) ? x.cast(dtype) : x).to(Device::cuda()));
    testing_card::poison();
    const Results found = f(moved);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].shape(), expected[i].shape()) << what;
      EXPECT_LE(squared_error(found[i].to_vector<double>(), expected[i].to_vector<double>()),
                dtype == DType::f64 ? 1e-20 : 1e-7)
          << what << ", " << name_of(dtype) << ", result " << i;
    }
  }
}

/// The same elements, exactly.
inline void expect_same(const std::string& what, const Results& found, const Results& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].to_vector<double>(), expected[i].to_vector<double>()) << what << ", result " << i;
  }
}

constexpr int64_t kLengths[] = {1, 7, 1023, 4097};

}  // namespace bochner::beside_cpu
