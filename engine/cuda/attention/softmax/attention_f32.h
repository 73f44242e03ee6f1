// Softmax attention in f32 by multiply-adds in registers.
#pragma once

#include "engine/ops/attention/softmax_attention.h"

namespace bochner::cuda {

/// Whether this is possible: tensors of f32, heads of at most 64, and a card with enough shared memory.
bool attends_in_f32(const Tensor& Q, const Tensor& V);

void softmax_attention_f32(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                           const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp);
/// delta (B, H, Lq) is dO . O.
void softmax_attention_backward_f32(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                    const Tensor& key_mask, const Tensor& logsumexp, const Tensor& delta,
                                    const SoftmaxAttentionOptions& options, const AttentionGradients& grads);

}  // namespace bochner::cuda
