// bf16 is a type for storing numbers; sums are in f32. A kernel that reads and writes bf16 has two types: S, that of
// memory, and ComputeType<S>. It rounds once, when it writes; its matrix products round their factors. (Wide linear and
// feed-forward layers on a card round twice: their product is written before bias and residual are added.) An op that
// has no such kernel converts its inputs and outputs:
//
//   if (must_convert(x)) return to_bf16(softmax(to_f32(x), axis));
//
// The kernels for bf16 are compared with this. The CPU has them for what takes the time of a step: products of matrices
// (engine/cpu/bf16), attention, LayerNorm and sums; other ops convert there. When activations are bf16, parameters,
// their gradients and statistics stay f32, and products round the parameters that they read.
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

/// Refuses what visit_stored does.
inline void require_stored(DType dtype, const char* op) {
  visit_stored(dtype, op, [](auto) {});
}

/// Whether an op that has a kernel for bf16 on a card alone must convert x.
inline bool must_convert(const Tensor& x) { return x.dtype() == DType::bf16 && x.device().is_cpu(); }
/// x in f32; undefined stays undefined.
inline Tensor to_f32(const Tensor& x) { return x.defined() ? x.cast(DType::f32) : x; }
/// x in bf16; undefined stays undefined.
inline Tensor to_bf16(const Tensor& x) { return x.defined() ? x.cast(DType::bf16) : x; }

}  // namespace bochner
