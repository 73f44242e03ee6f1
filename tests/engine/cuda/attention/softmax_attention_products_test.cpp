// Softmax attention with few queries or few keys: on a card it is made of products.
#include <gtest/gtest.h>

#include <limits>

#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/binary.h"
#include "engine/random.h"
#include "tests/card.h"

namespace bochner {
namespace {

/// Output, logsumexp and gradients.
std::vector<std::vector<double>> attend(Device device, DType dtype, int64_t queries, int64_t keys, bool masked) {
  constexpr int64_t kBatch = 3, kHeads = 2, kDim = 5;
  Generator generator(4);
  // Tokens before heads, as a projection gives them.
  const auto tokens = [&](int64_t length) {
    return normal({kBatch, length, kHeads, kDim}, generator, 0, 1, DType::f64).cast(dtype).transpose(1, 2);
  };
  const Tensor Q = tokens(queries), K = tokens(keys), V = tokens(keys), dO = tokens(queries);
  Tensor real;
  if (masked) {  // all keys of the first example, none of the second, half of the third
    real = less(Tensor::arange(keys).unsqueeze(0), Tensor::from<int64_t>({keys, 0, keys / 2}, {3, 1}));
    for (const Tensor& x : {K, V}) x.slice(0, 1, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    for (const Tensor& x : {K, V}) x.slice(0, 2, 3).slice(2, keys / 2, keys).fill_(1e30);
    real = real.to(device);
  }
  const auto there = [&](const Tensor& x) { return x.transpose(1, 2).to(device).transpose(1, 2); };
  const SoftmaxAttentionOptions options{0.7, false, {}};
  testing_card::poison();
  const SoftmaxAttended attended = softmax_attention(there(Q), there(K), there(V), real, options);
  const AttentionGradients grads =
      softmax_attention_backward(there(dO), there(Q), there(K), there(V), real, attended, options);
  std::vector<std::vector<double>> results;
  for (const Tensor& x : {attended.O, attended.logsumexp, grads.dQ, grads.dK, grads.dV}) {
    results.push_back(x.to_vector<double>());
  }
  return results;
}

TEST(SoftmaxAttentionOnACard, WithAShortSideEqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{1, 512}, {130, 1101}, {800, 3}, {2000, 128}}) {
    for (const bool masked : {false, true}) {
      const auto expected = attend(Device::cpu(), DType::f64, queries, keys, masked);
      for (const DType dtype : {DType::f64, DType::f32}) {
        const auto found = attend(Device::cuda(), dtype, queries, keys, masked);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_LE(testing_card::squared_error(found[i], expected[i]), dtype == DType::f64 ? 1e-20 : 1e-7)
              << queries << " queries, " << keys << " keys" << (masked ? ", masked" : "") << ", result " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace bochner
