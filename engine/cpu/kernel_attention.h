#pragma once

#include "engine/ops/kernel_attention.h"

namespace bochner::cpu {

/// Q, K, V, dO, O, dQ, dK, dV have a last stride of 1; the other tensors are contiguous. dOmega_parts (B, H, M, D) or
/// undefined.
void kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                      const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to);
void kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                               const Tensor& V, const Tensor& Omega, const Tensor& keys,
                               const KernelAttentionResult& forward, const KernelAttentionGradients& to,
                               const Tensor& dOmega_parts);

}  // namespace bochner::cpu
