// Checks and layouts that the streaming attentions share.
#pragma once

#include "engine/tensor.h"

namespace bochner {

struct AttentionGradients {
  Tensor dQ, dK, dV;
};

/// Refuses, in the name of `op`, anything but Q (B, H, Lq, D), K (B, H, Lk, D), V (B, H, Lk, E) of one type, and a
/// mask that is undefined or bool (B, Lk).
void check_attention(const char* op, const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask);
/// x itself if each of its rows is contiguous, otherwise a copy.
Tensor with_whole_rows(const Tensor& x);
/// A new tensor of `shape` (B, H, L, E), laid out as (B, L, H, E).
Tensor attention_output(const Shape& shape, const Tensor& like);
/// New tensors for the gradients of Q, K and V. If these have the same shape, the gradients are views of one (B, L, 3,
/// H, D) tensor, as a joint projection needs.
AttentionGradients attention_gradients(const Tensor& Q, const Tensor& K, const Tensor& V);

}  // namespace bochner
