// Softmax attention on tensor cores, with factors of bf16.
#pragma once

#include "engine/ops/attention/softmax_attention.h"

namespace bochner::cuda {

/// Which keys are real, one bit per key, in words for tiles of 64; undefined if all are.
Tensor packed_mask(const Tensor& key_mask);

/// Whether the tensor cores can compute it: tensors of bf16, or of f32 whose products may have bf16 factors
/// (engine/precision.h), heads of 32 or 64, and a card with such cores.
bool attends_in_bf16(const Tensor& Q, const Tensor& V);

void softmax_attention_bf16(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                            const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp);
void softmax_attention_backward_bf16(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                     const Tensor& key_mask, const SoftmaxAttended& attended,
                                     const SoftmaxAttentionOptions& options, const AttentionGradients& grads);

}  // namespace bochner::cuda
