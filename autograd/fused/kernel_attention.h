// Kernel attention that never stores its features; equations are in engine/ops/attention/kernel_attention.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/attention/kernel_attention.h"

namespace bochner {

using VariableFrequencies = FrequenciesOf<Variable>;

/// Q (B, H, Lq, D), K, V (B, H, Lk, D), frequencies dense (1 or heads, M, D), FastFood (on the CPU) or undefined, keys
/// bool (B, Lk) or undefined -> (B, H, Lq, D).
Variable kernel_attention(const KernelAttentionSpec& spec, const Variable& Q, const Variable& K, const Variable& V,
                          const VariableFrequencies& frequencies, const Tensor& keys);

namespace composed {

/// Omega, the frequencies as a matrix: the product S H G Pi H B of FastFood, (1 or heads, M, dim); a dense or undefined
/// one is returned as it is.
Variable dense(const VariableFrequencies& frequencies, int64_t dim);
/// phi(x) of shape (B, H, L, F): the features of x (B, H, L, D) in plain ops. Keys share one shift; each query has its
/// own.
Variable feature_map(const FeatureMap& map, const Variable& x, const Variable& Omega, bool is_key, const Tensor& keys,
                     bool shifts);
/// The same attention in plain differentiable ops, as the papers write it. It is meant for reading, and tests compare
/// the fused kernel with it.
Variable kernel_attention(const KernelAttentionSpec& spec, const Variable& Q, const Variable& K, const Variable& V,
                          const VariableFrequencies& frequencies, const Tensor& keys);

}  // namespace composed
}  // namespace bochner
