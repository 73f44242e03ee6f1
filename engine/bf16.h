// bf16 is a storage type; sums are in f32. A kernel that reads and writes bf16 has two types: S, the type in memory,
// and ComputeType<S>. It rounds once, when it writes; its matrix products round their factors. (Wide linear and
// feed-forward layers on a GPU round twice: their product is written before bias and residual are added.) An op without
// such a kernel converts its inputs and outputs:
//
//   if (must_convert(x)) return to_bf16(softmax(to_f32(x), axis));
//
// This is the reference for the bf16 kernels. The CPU has them for the ops that dominate a step: matrix products
// (engine/cpu/bf16), attention, LayerNorm, embeddings, dropout and sums; other ops convert there. When activations are
// bf16, parameters, their gradients and statistics stay f32, and products round the parameters that they read.
#pragma once

#include <type_traits>

#include "engine/tensor.h"

namespace bochner {

/// The type that numbers stored as T are computed in: f32 for bf16, else T.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
inline DType compute_dtype(DType stored) { return stored == DType::bf16 ? DType::f32 : stored; }

/// Like visit_floating, for f32, f64 and bf16.
template <class F>
decltype(auto) visit_stored(DType dtype, const char* op, F&& f) {
  if (dtype == DType::bf16) return f(TypeTag<bfloat16>{});
  return visit_floating(dtype, op, f);
}

/// Refuses the types that visit_stored refuses.
inline void require_stored(DType dtype, const char* op) {
  visit_stored(dtype, op, [](auto) {});
}

/// Whether an op whose bf16 kernel exists only on the GPU must convert x.
inline bool must_convert(const Tensor& x) { return x.dtype() == DType::bf16 && x.device().is_cpu(); }
/// x in f32; undefined stays undefined.
inline Tensor to_f32(const Tensor& x) { return x.defined() ? x.cast(DType::f32) : x; }
/// x in bf16; undefined stays undefined.
inline Tensor to_bf16(const Tensor& x) { return x.defined() ? x.cast(DType::bf16) : x; }

}  // namespace bochner
