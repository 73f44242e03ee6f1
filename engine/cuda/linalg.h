// LAPACK on the CPU for tensors on a card: what is read is copied there, and what is written is copied back. Both wait
// for the device. The factorisations of this project are small (frequencies, landmarks) and rare.
#pragma once

#include "engine/cpu/linalg.h"

namespace bochner::cuda {

void check_finite(const Tensor& x, const char* op);
void qr(int64_t batch, int64_t m, int64_t n, bool positive, const Tensor& a, const Tensor& q, const Tensor& r);
void eigh(int64_t batch, int64_t n, const Tensor& values, const Tensor& vectors);
void svd(int64_t batch, int64_t m, int64_t n, const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vt);
void invert_spectrum(int64_t batch, int64_t k, double cutoff, double ridge, const Tensor& s, const Tensor& y);
void cholesky(int64_t batch, int64_t n, const Tensor& l);
void triangular_solve(int64_t batch, int64_t n, int64_t columns, bool lower, bool transposed, const Tensor& t,
                      const Tensor& b);
void solve(int64_t batch, int64_t n, int64_t columns, const Tensor& a, const Tensor& bt);

}  // namespace bochner::cuda
