#include "engine/ops/attention/softmax_attention.h"

#include "engine/bf16.h"
#include "engine/comm/sequence_slices.h"
#include "engine/kernel.h"
#include "engine/work.h"

namespace bochner {

BOCHNER_KERNEL(kSoftmaxAttention, "softmax_attention", softmax_attention, const Tensor& Q, const Tensor& K,
               const Tensor& V, const Tensor& key_mask, const SoftmaxAttentionOptions& options, const Tensor& O,
               const Tensor& logsumexp);
BOCHNER_KERNEL(kSoftmaxAttentionBackward, "softmax_attention_backward", softmax_attention_backward, const Tensor& dO,
               const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
               const SoftmaxAttended& attended, const SoftmaxAttentionOptions& options,
               const AttentionGradients& grads);

namespace {

constexpr const char* kOp = "softmax_attention";

void check(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
           const SoftmaxAttentionOptions& options) {
  check_attention(kOp, Q, K, V, key_mask);
  if (options.slice == nullptr || (Q.device().is_cpu() && Q.size(2) == K.size(2))) return;
  fail("{}: slices of sequences are for queries and keys of the same tokens, and on the CPU; got Q {}, K {}", kOp,
       Q.str(), K.str());
}

/// Multiplications of Q K^T and P V; half of them if later keys are hidden.
double products_of(const Tensor& Q, const Tensor& K, const Tensor& V, const SoftmaxAttentionOptions& options) {
  const SequenceSlice* const slice = options.slice;
  double keys = static_cast<double>(slice == nullptr || options.causal ? K.size(2) : slice->length());
  if (options.causal) keys = keys / 2 + static_cast<double>(slice == nullptr ? 0 : slice->begin());
  const auto queries = static_cast<double>(Q.size(0) * Q.size(1) * Q.size(2));
  return queries * keys * static_cast<double>(Q.size(3) + V.size(3));
}

}  // namespace

SoftmaxAttended softmax_attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                                  const SoftmaxAttentionOptions& options) {
  check(Q, K, V, key_mask, options);
  const SoftmaxAttended attended{
      attention_output({Q.size(0), Q.size(1), Q.size(2), V.size(3)}, Q),
      Tensor::empty({Q.size(0), Q.size(1), Q.size(2)}, compute_dtype(Q.dtype()), Q.device())};
  const work::CountedAs counted(2 * products_of(Q, K, V, options));
  kSoftmaxAttention(Q.device(), with_whole_rows(Q), with_whole_rows(K), with_whole_rows(V), key_mask, options,
                    attended.O, attended.logsumexp);
  return attended;
}

AttentionGradients softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                              const Tensor& key_mask, const SoftmaxAttended& attended,
                                              const SoftmaxAttentionOptions& options) {
  check(Q, K, V, key_mask, options);
  if (!(dO.shape() == attended.O.shape()) || dO.dtype() != Q.dtype()) {
    fail("{}: the gradient is {}, the output {}", kOp, dO.str(), attended.O.str());
  }
  const AttentionGradients grads = attention_gradients(Q, K, V);
  const work::CountedAs counted(4 * products_of(Q, K, V, options));
  kSoftmaxAttentionBackward(Q.device(), with_whole_rows(dO), with_whole_rows(Q), with_whole_rows(K), with_whole_rows(V),
                            key_mask, SoftmaxAttended{with_whole_rows(attended.O), attended.logsumexp}, options, grads);
  return grads;
}

}  // namespace bochner
