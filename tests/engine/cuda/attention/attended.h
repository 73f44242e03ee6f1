// Softmax attention on a card compared with the CPU: the same inputs for both, and their results.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/binary.h"
#include "engine/random.h"
#include "tests/card.h"

namespace bochner::attended {

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
inline std::vector<std::vector<double>> attend(Device device, DType dtype, const Case& c) {
  constexpr int64_t kBatch = 3, kHeads = 2;
  Generator generator(4);
  // Tokens before heads, as a projection returns them.
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

}  // namespace bochner::attended
