// A query or key that is not a number makes the outputs that see it NaN too, on a card as on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "engine/ops/attention/kernel_attention.h"
#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/softmax.h"
#include "engine/random.h"
#include "tests/card.h"

namespace bochner {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t not_numbers(const Tensor& x) {
  int64_t count = 0;
  for (const double value : x.to_vector<double>()) count += std::isfinite(value) ? 0 : 1;
  return count;
}

Tensor tokens(int64_t length, int64_t dim, uint64_t seed) {
  Generator generator(seed);
  return normal({1, 2, length, dim}, generator);
}

/// The first token of the first head is not a number.
Tensor spoilt(int64_t length, int64_t dim, uint64_t seed) {
  const Tensor x = tokens(length, dim, seed);
  x.slice(1, 0, 1).slice(2, 0, 1).fill_(kNaN);
  return x;
}

struct TokensAndDim {
  int64_t queries, keys, dim;
};

TEST(NaNOnACard, PassesSoftmaxAttention) {
  BOCHNER_NEEDS_CARD();
  for (const auto& [queries, keys, dim] :
       {TokensAndDim{40, 40, 32}, TokensAndDim{40, 40, 64}, TokensAndDim{40, 40, 96}, TokensAndDim{8, 600, 5}}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      for (const bool of_query : {true, false}) {
        const Tensor Q = of_query ? spoilt(queries, dim, 1) : tokens(queries, dim, 1);
        const Tensor K = of_query ? tokens(keys, dim, 2) : spoilt(keys, dim, 2);
        const auto there = [&](const Tensor& x) { return x.cast(dtype).to(Device::cuda()); };
        const SoftmaxAttended found =
            softmax_attention(there(Q), there(K), there(tokens(keys, dim, 3)), Tensor(), SoftmaxAttentionOptions{});
        const std::string what = fmt::format("{} queries, {} keys, {}, {}", queries, keys, dim, name_of(dtype));
        EXPECT_EQ(not_numbers(found.O), (of_query ? 1 : queries) * dim) << what;
        const AttentionGradients grads =
            softmax_attention_backward(there(tokens(queries, dim, 4)), there(Q), there(K), there(tokens(keys, dim, 3)),
                                       Tensor(), found, SoftmaxAttentionOptions{});
        for (const auto& [name, gradient] : {std::pair{"dQ", grads.dQ}, {"dK", grads.dK}, {"dV", grads.dV}}) {
          EXPECT_GT(not_numbers(gradient), 0) << name << ": " << what;
        }
      }
    }
  }
}

TEST(NaNOnACard, PassesKernelAttention) {
  BOCHNER_NEEDS_CARD();
  Generator generator(5);
  const Tensor Omega = normal({2, 64, 64}, generator).to(Device::cuda());
  for (const bool causal : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool of_query : {true, false}) {
        KernelAttentionSpec spec;
        spec.map = {.kind = FeatureMap::Kind::positive, .norm_factor = 0.5};
        spec.causal = causal;
        const auto there = [&](const Tensor& x) { return x.cast(dtype).to(Device::cuda()); };
        const Tensor Q = of_query ? spoilt(70, 64, 1) : tokens(70, 64, 1);
        const Tensor K = of_query ? tokens(70, 64, 2) : spoilt(70, 64, 2);
        const Tensor O =
            kernel_attention(spec, there(Q), there(K), there(tokens(70, 64, 3)), Frequencies(Omega), Tensor()).O;
        EXPECT_EQ(not_numbers(O), (of_query ? 1 : 70) * 64) << name_of(dtype) << (causal ? ", causal" : "");
      }
    }
  }
}

TEST(NaNOnACard, MakesARowOfSoftmaxNotANumber) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t columns : {3, 256, 5000}) {
    const Tensor x = Tensor::full({2, columns}, -std::numeric_limits<double>::infinity());
    x.slice(0, 1, 2).slice(1, 1, 2).fill_(kNaN);
    EXPECT_EQ(not_numbers(softmax(x.to(Device::cuda()))), columns);
    const auto sums = logsumexp(x.to(Device::cuda())).to_vector<double>();
    EXPECT_EQ(sums[0], -std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(sums[1]));
  }
}

}  // namespace
}  // namespace bochner
