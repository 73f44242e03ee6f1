// bf16 is a type for storing numbers; computation is in f32. A kernel that reads and writes bf16 has two types: S, that
// of memory, and Computed<S>. It rounds once, when it writes. An op that has no such kernel converts its inputs and
// outputs:
//
//   if (converts(x)) return rounded(softmax(wide(x), axis));
//
// The kernels for bf16 are compared with this. The CPU has none: there every op converts. When activations are bf16,
// parameters, their gradients and statistics stay f32, and products round the parameters that they read.
#pragma once

#include <type_traits>

#include "engine/tensor.h"

namespace bochner {

/// What numbers stored as T are computed in: f32 for bf16, else T.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
inline DType computed(DType stored) { return stored == DType::bf16 ? DType::f32 : stored; }

/// As visit_floating, for f32, f64 and bf16.
template <class F>
decltype(auto) visit_stored(DType dtype, const char* op, F&& f) {
  if (dtype == DType::bf16) return f(TypeTag<bfloat16>{});
  return visit_floating(dtype, op, f);
}

/// Whether an op that has a kernel for bf16 on a card must convert x.
inline bool converts(const Tensor& x) { return x.dtype() == DType::bf16 && x.device().is_cpu(); }
/// x in the type it is computed in; undefined stays so.
inline Tensor wide(const Tensor& x) { return x.defined() ? x.cast(computed(x.dtype())) : x; }
/// x in bf16; undefined stays so.
inline Tensor rounded(const Tensor& x) { return x.defined() ? x.cast(DType::bf16) : x; }

}  // namespace bochner
