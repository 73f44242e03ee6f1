// Factorisations with LAPACK, for the CPU and for the CUDA backend, which copies to the CPU and back.
#pragma once

#include "engine/tensor.h"

namespace bochner::cpu {

// All tensors are contiguous, matrices row-major, one after the other; sizes are positive. f32 or f64.

/// An Error in the name of `op` if an element is NaN or infinite, which names the first one.
void check_finite(const Tensor& x, const char* op);

/// a (batch, m, n) = q (batch, m, k) r (batch, k, n)
void qr(int64_t batch, int64_t m, int64_t n, bool positive, const Tensor& a, const Tensor& q, const Tensor& r);
/// `vectors` holds a (batch, n, n), of which only the lower triangles are read, and receives the eigenvectors as rows.
void eigh(int64_t batch, int64_t n, const Tensor& values, const Tensor& vectors);
void svd(int64_t batch, int64_t m, int64_t n, const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vt);
/// y = s / (s^2 + ridge) where s exceeds `cutoff` times the largest of its row, else 0; s and y (batch, k).
void invert_spectrum(int64_t batch, int64_t k, double cutoff, double ridge, const Tensor& s, const Tensor& y);
/// `l` holds a and receives the factor, with its upper triangle cleared.
void cholesky(int64_t batch, int64_t n, const Tensor& l);
/// `b` (batch, n, columns) becomes the solution.
void triangular_solve(int64_t batch, int64_t n, int64_t columns, bool lower, bool transposed, const Tensor& t,
                      const Tensor& b);
/// `a` (batch, n, n) is overwritten; `bt` (batch, columns, n) holds the right-hand sides as rows and receives the
/// solutions.
void solve(int64_t batch, int64_t n, int64_t columns, const Tensor& a, const Tensor& bt);

}  // namespace bochner::cpu
