// Gaussian kernel attention (SKY §4.1) that never stores its weights, and the inverse that the Nystrom methods use.
#pragma once

#include "layers/attention/mechanism.h"

namespace bochner {

/// O_i = sum_j exp(-|q_i - k_j|^2 / 2) v_j over real keys, (B, H, Lq, D), (B, H, Lk, D), (B, H, Lk, E)
/// -> (B, H, Lq, E); causal: over j <= i. Streaming: the scores are never stored.
Variable gaussian_attention(const Variable& Q, const Variable& K, const Variable& V, const Tensor& keys, bool causal);

/// The identity matrix (n, n).
Tensor identity(int64_t n, DType dtype, Device device);

/// An approximation of A^-1 for square matrices A (..., n, n): `iterations` of
///
///   V <- V (13 I - A V (15 I - A V (7 I - A V))) / 4
///
/// from V = A^T / s (Razavi et al., 2014; SKY §4.4, Nystromformer Eq. 11). Singular values far below s are hardly
/// inverted: after 6 iterations a lambda of 0.05 has reached 94 % of its inverse, and one of 0.01 only 11 %. This
/// damping is part of the models. s (broadcasts to A) must be at least the square of A's largest singular value.
Variable iterative_inverse(const Variable& A, const Variable& s, int64_t iterations);

}  // namespace bochner
