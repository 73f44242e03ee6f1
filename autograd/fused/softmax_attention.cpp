#include "autograd/fused/softmax_attention.h"

#include <limits>
#include <map>

#include "autograd/fused/dropout.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"

namespace bochner {
namespace composed {

Variable softmax_attention(const SoftmaxAttentionOptions& options, const Variable& Q, const Variable& K,
                           const Variable& V, const Tensor& keys) {
  const int64_t queries = Q.size(2);
  const int64_t length = K.size(2);
  Variable scores = matmul(Q * options.scale, transpose(K, -2, -1));  // (B, H, Lq, Lk)
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  if (keys.defined()) scores = where(keys.view({keys.size(0), 1, 1, length}), scores, hidden);
  if (options.causal) {
    const Tensor i = Tensor::arange(queries, DType::i64, Q.device()).view({queries, 1});
    const Tensor j = Tensor::arange(length, DType::i64, Q.device()).view({1, length});
    scores = where(less_equal(j, i).view({1, 1, queries, length}), scores, hidden);
  }
  Variable P = softmax(scores);  // (B, H, Lq, Lk)
  if (options.dropout.active()) P = dropout_at(P, options.dropout);
  return matmul(P, V);  // (B, H, Lq, E)
}

}  // namespace composed

Variable softmax_attention(const SoftmaxAttentionOptions& options, const Variable& Q, const Variable& K,
                           const Variable& V, const Tensor& keys) {
  const SoftmaxAttended attended = softmax_attention(Q.value(), K.value(), V.value(), keys, options);
  return record_fused(
      "softmax_attention", attended.O, {Q, K, V},
      [=](const auto& in) {
        if (options.slice != nullptr) fail("softmax_attention: slices of sequences have no second derivatives");
        return composed::softmax_attention(options, in[0], in[1], in[2], keys);
      },
      [=](const Tensor& g, const auto& in) -> Gradients {
        const AttentionGradients grads =
            softmax_attention_backward(g, in[0].value(), in[1].value(), in[2].value(), keys, attended, options);
        return {grads.dQ, grads.dK, grads.dV};
      });
}

}  // namespace bochner
