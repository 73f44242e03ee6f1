// Rotary positions (Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021, Eqs. 14, 15, 34).
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// The first `turned` vectors of each token are rotated by the angles of the token's place t, the others are copied. A
/// vector (a; b) of two halves is dim / 2 pairs (a_j, b_j), and
///
///   a'_j = a_j cos_tj - b_j sin_tj,   b'_j = b_j cos_tj + a_j sin_tj
///
/// or, with `back`, the same with -sin_tj: the inverse, which is also the transpose, so the derivative.
/// x (batch, length, vectors, dim), in f32, f64 or bf16; cosines and sines (length, dim / 2), f32 if x is bf16 and
/// otherwise of its type. An Error if sizes or types do not fit.
Tensor rotary(const Tensor& x, const Tensor& cosines, const Tensor& sines, int64_t turned, bool back = false);

/// The arguments of its kernels: x and y are (tokens, vectors, dim), and token t has the place t % length.
struct RotarySizes {
  int64_t tokens, length, vectors, turned, dim;
  bool back;
};

}  // namespace bochner
