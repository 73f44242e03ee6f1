// Kernel attention on tensor cores, with factors of bf16.
#pragma once

#include "engine/ops/attention/kernel_attention.h"

namespace bochner::cuda {

/// Whether the tensor cores can compute it: tensors of bf16, or of f32 whose products may have bf16 factors
/// (engine/precision.h), heads of 32 or 64, and a card with such cores.
bool kernel_attends_in_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& V);

void kernel_attention_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to);
void kernel_attention_backward_bf16(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                                    const Tensor& V, const Tensor& Omega, const Tensor& keys,
                                    const KernelAttentionResult& forward, const KernelAttentionGradients& to);

/// The same for the causal form; there is at least one query and one key.
void causal_kernel_attention_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                                  const Tensor& Omega, const Tensor& mask, const KernelAttentionResult& to);
void causal_kernel_attention_backward_bf16(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q,
                                           const Tensor& K, const Tensor& V, const Tensor& Omega, const Tensor& mask,
                                           const KernelAttentionResult& forward, const KernelAttentionGradients& to);

}  // namespace bochner::cuda
