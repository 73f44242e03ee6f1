// bf16 is a type to store in; what is computed from it is f32. A kernel that reads and writes bf16 has two types, that
// of memory, S, and Computed<S>, and rounds once, where it writes. An op that has no such kernel converts at its
// border:
//
//   if (converts(x)) return rounded(softmax(wide(x), axis));
//
// which is what the kernels for bf16 are measured by. The CPU has none: there every op converts. Parameters, their
// gradients and statistics stand beside activations in bf16 as f32; products round the parameters they read.
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

/// Does an op that has a kernel for bf16 on a card convert x at its border?
inline bool converts(const Tensor& x) { return x.dtype() == DType::bf16 && x.device().is_cpu(); }
/// x in the type it is computed in; undefined stays so.
inline Tensor wide(const Tensor& x) { return x.defined() ? x.cast(computed(x.dtype())) : x; }
/// x in bf16; undefined stays so.
inline Tensor rounded(const Tensor& x) { return x.defined() ? x.cast(DType::bf16) : x; }

}  // namespace bochner
