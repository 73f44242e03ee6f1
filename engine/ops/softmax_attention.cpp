#include "engine/ops/softmax_attention.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/work.h"

namespace bochner {

BOCHNER_KERNEL(kForward, "softmax_attention", softmax_attention, const Tensor& Q, const Tensor& K, const Tensor& V,
               const Tensor& key_mask, const SoftmaxAttentionOptions& options, const Tensor& O,
               const Tensor& logsumexp);
BOCHNER_KERNEL(kBackward, "softmax_attention_backward", softmax_attention_backward, const Tensor& dO, const Tensor& Q,
               const Tensor& K, const Tensor& V, const Tensor& key_mask, const SoftmaxAttended& attended,
               const SoftmaxAttentionOptions& options, const AttentionGradients& grads);

namespace {

constexpr const char* kOp = "softmax_attention";

/// Multiplications of Q K^T and P V; half of them if later keys are hidden.
double products_of(const Tensor& Q, const Tensor& K, const Tensor& V, const SoftmaxAttentionOptions& options) {
  const auto pairs = static_cast<double>(Q.size(0) * Q.size(1)) * static_cast<double>(Q.size(2) * K.size(2));
  return (options.causal ? 0.5 : 1) * pairs * static_cast<double>(Q.size(3) + V.size(3));
}

}  // namespace

SoftmaxAttended softmax_attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                                  const SoftmaxAttentionOptions& options, const Tensor& to) {
  check_attention(kOp, Q, K, V, key_mask);
  const SoftmaxAttended attended{
      attention_output(kOp, {Q.size(0), Q.size(1), Q.size(2), V.size(3)}, Q, to),
      Tensor::empty({Q.size(0), Q.size(1), Q.size(2)}, compute_dtype(Q.dtype()), Q.device())};
  work::add_flops(2 * products_of(Q, K, V, options));
  kForward(Q.device(), with_whole_rows(Q), with_whole_rows(K), with_whole_rows(V), key_mask, options, attended.O,
           attended.logsumexp);
  return attended;
}

AttentionGradients softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                              const Tensor& key_mask, const SoftmaxAttended& attended,
                                              const SoftmaxAttentionOptions& options, const AttentionGradients& to) {
  check_attention(kOp, Q, K, V, key_mask);
  if (!(dO.shape() == attended.O.shape()) || dO.dtype() != Q.dtype()) {
    fail("{}: the gradient is {}, the output {}", kOp, dO.str(), attended.O.str());
  }
  const AttentionGradients grads = attention_gradients(kOp, Q, K, V, to);
  work::add_flops(4 * products_of(Q, K, V, options));
  kBackward(Q.device(), with_whole_rows(dO), with_whole_rows(Q), with_whole_rows(K), with_whole_rows(V), key_mask,
            SoftmaxAttended{with_whole_rows(attended.O), attended.logsumexp}, options, grads);
  return grads;
}

}  // namespace bochner
