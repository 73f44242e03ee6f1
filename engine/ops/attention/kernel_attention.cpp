#include "engine/ops/attention/kernel_attention.h"

#include <cmath>

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/ops/attention/attention_shapes.h"
#include "engine/work.h"

namespace bochner {

// Each row of Q, K, V, dO, O, dQ, dK and dV is contiguous, and so are the values of Omega. dOmega is overwritten if it
// is defined.
BOCHNER_KERNEL(kKernelAttention, "kernel_attention", kernel_attention, const KernelAttentionSpec& spec, const Tensor& Q,
               const Tensor& K, const Tensor& V, const Frequencies& Omega, const Tensor& keys,
               const KernelAttentionResult& to);
BOCHNER_KERNEL(kKernelAttentionBackward, "kernel_attention_backward", kernel_attention_backward,
               const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
               const Frequencies& Omega, const Tensor& keys, const KernelAttentionResult& forward,
               const KernelAttentionGradients& to);

namespace {

using T = const Tensor&;
using Spec = const KernelAttentionSpec&;
using W = const Frequencies&;

void check_fastfood(const FastFoodRows& rows, T Q, T diagonals) {
  const Tensor& order = rows.permutation;
  const int64_t D = Q.size(3);
  if (!Q.device().is_cpu())
    fail("kernel_attention: FastFood runs on the CPU; elsewhere multiply it out as a dense Omega");
  if (order.rank() != 2 || order.dtype() != DType::i64 || !order.device().is_cpu() || !order.is_contiguous()) {
    fail("kernel_attention: FastFood's permutation {} must be i64 (blocks, size), contiguous", order.str());
  }
  const int64_t P = order.size(1);
  if (P < D || P < 1 || (P & (P - 1)) != 0) {
    fail("kernel_attention: FastFood's size {} must be a power of two, at least the head size {}", P, D);
  }
  if (rows.count < 1 || rows.count > order.size(0) * P) {
    fail("kernel_attention: {} frequencies do not fit FastFood's {} rows", rows.count, order.size(0) * P);
  }
  const bool fits = diagonals.defined() && diagonals.rank() == 3 &&
                    (diagonals.size(0) == 1 || diagonals.size(0) == Q.size(1)) &&
                    diagonals.size(1) == 3 * order.size(0) && diagonals.size(2) == P;
  if (!fits || diagonals.dtype() != compute_dtype(Q.dtype())) {
    fail("kernel_attention: FastFood's diagonals must be {} (1 or {} heads, {}, {})", name_of(compute_dtype(Q.dtype())),
         Q.size(1), 3 * order.size(0), P);
  }
  const int64_t* places = order.data<int64_t>();
  for (int64_t i = 0; i < order.size(); ++i) {
    if (places[i] < 0 || places[i] >= P) {
      fail("kernel_attention: FastFood's permutation holds {} at {}; places are 0 to {}", places[i], i, P - 1);
    }
  }
}

void check_dense(T Q, T Omega) {
  if (!Omega.defined()) return;
  if (Omega.rank() != 3 || (Omega.size(0) != 1 && Omega.size(0) != Q.size(1)) || Omega.size(2) != Q.size(3)) {
    fail("kernel_attention: Omega {} must be (1 or {} heads, features, {})", Omega.shape().str(), Q.size(1), Q.size(3));
  }
  if (Omega.size(1) < 1) fail("kernel_attention: {} has no features; at least 1 is needed", Omega.shape().str());
  if (Omega.dtype() != compute_dtype(Q.dtype()) || Omega.device() != Q.device()) {
    fail("kernel_attention: Q {} and Omega {} differ in type or device; cast() or move one", Q.str(), Omega.str());
  }
}

void check(Spec spec, T Q, T K, T V, W Omega, T keys) {
  check_attention("kernel_attention", Q, K, V, keys);
  if (spec.slice != nullptr && (!Q.device().is_cpu() || Q.size(2) != K.size(2))) {
    fail(
        "kernel_attention: slices of sequences are for queries and keys of the same tokens, and on the CPU; got Q {}, "
        "K {}",
        Q.str(), K.str());
  }
  if (spec.denominator_eps < 0) fail("kernel_attention: denominator_eps {} is negative", spec.denominator_eps);
  if (Omega.fastfood.has_value()) {
    check_fastfood(*Omega.fastfood, Q, Omega.values);
  } else {
    check_dense(Q, Omega.values);
  }
}

/// Multiplications of Omega by a token of size `dim`. An addition of FastFood's two transforms counts half.
double products_of_projection(W Omega, int64_t dim) {
  if (!Omega.defined()) return 0;
  if (!Omega.fastfood.has_value()) return static_cast<double>(Omega.values.size(1) * dim);
  const int64_t P = Omega.values.size(2);
  const double block = static_cast<double>(P) * (3 + std::log2(static_cast<double>(P)));
  return static_cast<double>(Omega.fastfood->permutation.size(0)) * block;
}

Frequencies contiguous(W Omega) {
  Frequencies result = Omega;
  result.values = Omega.values.contiguous();
  return result;
}

/// Multiplications of Omega x for queries and keys, of phi(K)^T V and of phi(Q) S.
double products_of(Spec spec, T Q, T K, T V, W Omega) {
  const auto heads = static_cast<double>(Q.size(0) * Q.size(1));
  const auto tokens = static_cast<double>(Q.size(2) + K.size(2));
  const auto features = static_cast<double>(spec.map.rows(Omega.count(Q.size(3))));
  return heads * tokens * (products_of_projection(Omega, Q.size(3)) + features * static_cast<double>(V.size(3)));
}

}  // namespace

KernelAttentionResult kernel_attention(Spec spec, T Q, T K, T V, W Omega, T keys) {
  check(spec, Q, K, V, Omega, keys);
  const KernelAttentionSizes sizes(spec, Q, K, V, Omega);
  const Shape per_query{sizes.batch, sizes.heads, sizes.queries};
  const int64_t states = spec.causal ? ceil_div(sizes.queries, kKernelAttentionSegment) : 1;
  const int64_t state_size = kernel_attention_state_size(sizes.features, sizes.value_dim);
  KernelAttentionResult result;
  result.O = attention_output({sizes.batch, sizes.heads, sizes.queries, sizes.value_dim}, Q);
  result.state = Tensor::empty({sizes.batch, sizes.heads, states, state_size}, compute_dtype(Q.dtype()), Q.device());
  if (spec.renormalise) result.denominator = Tensor::empty(per_query, compute_dtype(Q.dtype()), Q.device());
  work::add_flops(2 * products_of(spec, Q, K, V, Omega));
  kKernelAttention(Q.device(), spec, with_whole_rows(Q), with_whole_rows(K), with_whole_rows(V), contiguous(Omega),
                   keys, result);
  return result;
}

KernelAttentionGradients kernel_attention_backward(Spec spec, T dO, T Q, T K, T V, W Omega, T keys,
                                                   const KernelAttentionResult& forward, bool need_dOmega) {
  check(spec, Q, K, V, Omega, keys);
  if (!(dO.shape() == forward.O.shape()) || dO.dtype() != Q.dtype()) {
    fail("kernel_attention: the gradient is {}, the output {}", dO.str(), forward.O.str());
  }
  const AttentionGradients grads = attention_gradients(Q, K, V);
  KernelAttentionGradients to{grads.dQ, grads.dK, grads.dV, {}};
  if (need_dOmega && Omega.defined()) {
    to.dOmega = Tensor::empty(Omega.values.shape(), Omega.values.dtype(), Q.device());
  }
  work::add_flops(4 * products_of(spec, Q, K, V, Omega));
  kKernelAttentionBackward(Q.device(), spec, with_whole_rows(dO), with_whole_rows(Q), with_whole_rows(K),
                           with_whole_rows(V), contiguous(Omega), keys, forward, to);
  return to;
}

}  // namespace bochner
