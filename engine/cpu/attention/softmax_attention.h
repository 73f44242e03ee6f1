#pragma once

#include "engine/ops/softmax_attention.h"

namespace bochner::cpu {

void softmax_attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                       const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp);
void softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                const Tensor& key_mask, const SoftmaxAttended& attended,
                                const SoftmaxAttentionOptions& options, const AttentionGradients& grads);

}  // namespace bochner::cpu
