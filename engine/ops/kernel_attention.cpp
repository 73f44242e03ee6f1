#include "engine/ops/kernel_attention.h"

#include "engine/cpu/kernel_attention.h"
#include "engine/kernel.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/kernel_attention.h"
#endif

namespace bochner {
namespace {

using T = const Tensor&;
using Spec = const KernelAttentionSpec&;
constexpr Kernel<void(Spec, T, T, T, T, T, const KernelAttentionResult&)> kForward{
    "kernel_attention", &cpu::kernel_attention, CUDA_KERNEL(kernel_attention)};
constexpr Kernel<void(Spec, T, T, T, T, T, T, const KernelAttentionResult&, const KernelAttentionGradients&, T)>
    kBackward{"kernel_attention_backward", &cpu::kernel_attention_backward, CUDA_KERNEL(kernel_attention_backward)};

/// x with elements of a row beside each other.
Tensor dense_rows(const Tensor& x) { return x.size(-1) == 1 || x.strides()[-1] == 1 ? x : x.contiguous(); }

void check(Spec spec, T Q, T K, T V, T Omega, T keys) {
  if (Q.rank() != 4 || K.rank() != 4 || !(K.shape() == V.shape()) || Q.size(0) != K.size(0) || Q.size(1) != K.size(1) ||
      Q.size(3) != K.size(3)) {
    fail("kernel_attention: Q {}, K {}, V {} must be (batch, heads, length, dim), equal but for the length of Q",
         Q.shape().str(), K.shape().str(), V.shape().str());
  }
  if (spec.causal && Q.size(2) != K.size(2)) {
    fail("kernel_attention: causal needs as many queries as keys, got {} and {}", Q.size(2), K.size(2));
  }
  if (Omega.defined() &&
      (Omega.rank() != 3 || (Omega.size(0) != 1 && Omega.size(0) != Q.size(1)) || Omega.size(2) != Q.size(3))) {
    fail("kernel_attention: Omega {} must be (1 or {} heads, features, {})", Omega.shape().str(), Q.size(1), Q.size(3));
  }
  if (Omega.defined() && Omega.size(1) < 1)
    fail("kernel_attention: {} has no features; at least 1 is needed", Omega.shape().str());
  if (keys.defined() && (keys.dtype() != DType::boolean || !(keys.shape() == Shape{K.size(0), K.size(2)}))) {
    fail("kernel_attention: the key mask must be bool {}, got {}", Shape{K.size(0), K.size(2)}.str(), keys.str());
  }
  for (const Tensor* x : {&K, &V, &Omega}) {
    if (x->defined() && x->dtype() != Q.dtype()) fail("kernel_attention: {} and {} differ in type", Q.str(), x->str());
  }
}

}  // namespace

KernelAttentionResult kernel_attention(Spec spec, T Q, T K, T V, T Omega, T keys) {
  check(spec, Q, K, V, Omega, keys);
  const int64_t B = Q.size(0);
  const int64_t H = Q.size(1);
  const int64_t Lq = Q.size(2);
  const int64_t D = Q.size(3);
  const int64_t F = spec.map.features(Omega.defined() ? Omega.size(1) : D);
  KernelAttentionResult result;
  result.O = Tensor::empty({B, Lq, H, D}, Q.dtype(), Q.device()).transpose(1, 2);
  if (!spec.causal) result.state = Tensor::empty({B, H, F, D + 1}, Q.dtype(), Q.device());
  result.shift = Tensor::zeros({B, H}, Q.dtype(), Q.device());
  result.denominator = Tensor::empty({B, H, Lq}, Q.dtype(), Q.device());
  kForward(Q.device(), spec, dense_rows(Q), dense_rows(K), dense_rows(V), Omega.defined() ? Omega.contiguous() : Omega,
           keys.defined() ? keys.contiguous() : keys, result);
  return result;
}

KernelAttentionGradients kernel_attention_backward(Spec spec, T dO, T Q, T K, T V, T Omega, T keys,
                                                   const KernelAttentionResult& forward, bool need_dOmega) {
  const int64_t B = Q.size(0);
  const int64_t H = Q.size(1);
  const int64_t D = Q.size(3);
  const auto empty = [&](const Shape& shape) { return Tensor::empty(shape, Q.dtype(), Q.device()); };
  KernelAttentionGradients to;
  if (Q.size(2) == K.size(2)) {  // side by side, as a joined projection wants them
    const Tensor joined = empty({B, Q.size(2), 3, H, D});
    to.dQ = joined.select(2, 0).transpose(1, 2);
    to.dK = joined.select(2, 1).transpose(1, 2);
    to.dV = joined.select(2, 2).transpose(1, 2);
  } else {
    to.dQ = empty({B, Q.size(2), H, D}).transpose(1, 2);
    to.dK = empty({B, K.size(2), H, D}).transpose(1, 2);
    to.dV = empty({B, K.size(2), H, D}).transpose(1, 2);
  }
  const bool wanted = need_dOmega && Omega.defined();
  Tensor parts;
  if (wanted) parts = Tensor::zeros({B, H, Omega.size(1), D}, Q.dtype(), Q.device());
  kBackward(Q.device(), spec, dense_rows(dO), dense_rows(Q), dense_rows(K), dense_rows(V),
            Omega.defined() ? Omega.contiguous() : Omega, keys.defined() ? keys.contiguous() : keys, forward, to,
            parts);
  if (wanted) {  // u = scale Omega x
    to.dOmega = (Omega.size(0) == 1 ? sum(parts, {0, 1}).unsqueeze(0) : sum(parts, {0})) * spec.scale;
  }
  return to;
}

}  // namespace bochner
