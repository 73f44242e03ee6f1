#pragma once

#include "engine/ops/kernel_attention.h"

namespace bochner::cpu {

/// Rows of Q, K, V, dO, O, dQ, dK, dV are of one piece; Omega is contiguous. dOmega is overwritten where it is defined.
void kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                      const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to);
void kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                               const Tensor& V, const Tensor& Omega, const Tensor& keys,
                               const KernelAttentionResult& forward, const KernelAttentionGradients& to);

}  // namespace bochner::cpu
