// Softmax attention in f32 on a card, over several tiles of queries and keys.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/binary.h"
#include "engine/random.h"
#include "tests/card.h"

namespace bochner {
namespace {

struct Case {
  int64_t queries, keys, dim, value_dim;
  bool causal, masked;
  double dropout, scale;

  std::string name() const {
    return fmt::format("{} queries of {}, {} keys of {}{}{}, dropout {}, scale {}", queries, dim, keys, value_dim,
                       causal ? ", causal" : "", masked ? ", masked" : "", dropout, scale);
  }
};

/// Output, logsumexp and gradients.
std::vector<std::vector<double>> attend(Device device, DType dtype, const Case& c) {
  constexpr int64_t kBatch = 3, kHeads = 2;
  Generator generator(4);
  // Tokens before heads, as a projection gives them.
  const auto tokens = [&](int64_t length, int64_t dim) {
    return normal({kBatch, length, kHeads, dim}, generator, 0, 1, DType::f64).cast(dtype).transpose(1, 2);
  };
  const Tensor Q = tokens(c.queries, c.dim), K = tokens(c.keys, c.dim), V = tokens(c.keys, c.value_dim);
  const Tensor dO = tokens(c.queries, c.value_dim);
  Tensor real;
  if (c.masked) {  // all keys of the first example, none of the second, half of the third
    real = less(Tensor::arange(c.keys).unsqueeze(0), Tensor::from<int64_t>({c.keys, 0, c.keys / 2}, {3, 1}));
    for (const Tensor& x : {K, V}) x.slice(0, 1, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    for (const Tensor& x : {K, V}) x.slice(0, 2, 3).slice(2, c.keys / 2, c.keys).fill_(1e30);
    real = real.to(device);
  }
  const auto there = [&](const Tensor& x) { return x.transpose(1, 2).to(device).transpose(1, 2); };
  const SoftmaxAttentionOptions options{c.scale, c.causal, Dropout::at(c.dropout, Generator(3, 7))};
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

TEST(SoftmaxAttentionOnACard, InF32EqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const Case& c : {Case{130, 200, 64, 64, false, false, 0, 0.125}, Case{130, 200, 64, 64, true, true, 0, 0.125},
                        Case{200, 130, 64, 64, true, false, 0.3, 0.125}, Case{257, 65, 32, 32, false, true, 0.3, 0.3},
                        Case{128, 192, 5, 40, false, false, 0.5, -0.4}, Case{70, 300, 33, 7, true, true, 0.2, 0.2},
                        Case{64, 64, 16, 32, true, false, 0, 0.25}, Case{3, 129, 1, 1, false, true, 1, 3},
                        Case{66, 70, 64, 65, false, true, 0, 0.125}}) {
    const auto expected = attend(Device::cpu(), DType::f64, c);
    const auto found = attend(Device::cuda(), DType::f32, c);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(testing_card::squared_error(found[i], expected[i]), 1e-7) << c.name() << ", result " << i;
    }
    // The same, with dS in memory for a few examples, or heads, or queries, at a time.
    for (const char* pairs : {"300000", "66000", "9000"}) {
      ::setenv("BOCHNER_SCORES_IN_MEMORY", pairs, 1);
      const auto in_parts = attend(Device::cuda(), DType::f32, c);
      ::unsetenv("BOCHNER_SCORES_IN_MEMORY");
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LE(testing_card::squared_error(in_parts[i], found[i]), 1e-7) << c.name() << ", " << pairs << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace bochner
