// Softmax attention that writes its weights to memory, for when one side is short: landmarks, or keys projected to a
// few. The streaming kernels would then have few blocks, or blocks with little to walk over; products of whole matrices
// fill the card, and a pass over the weights costs little.
#pragma once

#include "engine/ops/attention/softmax_attention.h"

namespace bochner::cuda {

/// x with zeros at keys that are not real, which are never read and might be NaN.
Tensor real_rows(const Tensor& x, const Tensor& key_mask);

/// Whether this pays off.
bool attends_by_products(const Tensor& Q, const Tensor& K, const SoftmaxAttentionOptions& options);

void softmax_attention_by_products(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                                   const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp);
void softmax_attention_backward_by_products(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                            const Tensor& key_mask, const SoftmaxAttended& attended,
                                            const SoftmaxAttentionOptions& options, const AttentionGradients& grads);

}  // namespace bochner::cuda
