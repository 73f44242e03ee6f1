#include "engine/cuda/linalg.h"

namespace bochner::cuda {
namespace {

Tensor here(const Tensor& x) { return x.to(Device::cpu()); }
/// A tensor of the same shape and type, not copied.
Tensor space(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype()); }

}  // namespace

void check_finite(const Tensor& x, const char* op) { cpu::check_finite(here(x), op); }

void qr(int64_t batch, int64_t m, int64_t n, bool positive, const Tensor& a, const Tensor& q, const Tensor& r) {
  const Tensor own_q = space(q);
  const Tensor own_r = space(r);
  cpu::qr(batch, m, n, positive, here(a), own_q, own_r);
  q.copy_(own_q);
  r.copy_(own_r);
}

void eigh(int64_t batch, int64_t n, const Tensor& values, const Tensor& vectors) {
  const Tensor own_values = space(values);
  const Tensor own_vectors = here(vectors);
  cpu::eigh(batch, n, own_values, own_vectors);
  values.copy_(own_values);
  vectors.copy_(own_vectors);
}

void svd(int64_t batch, int64_t m, int64_t n, const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vt) {
  const Tensor own_u = space(u);
  const Tensor own_s = space(s);
  const Tensor own_vt = space(vt);
  cpu::svd(batch, m, n, here(a), own_u, own_s, own_vt);
  u.copy_(own_u);
  s.copy_(own_s);
  vt.copy_(own_vt);
}

void invert_spectrum(int64_t batch, int64_t k, double cutoff, double ridge, const Tensor& s, const Tensor& y) {
  const Tensor own = space(y);
  cpu::invert_spectrum(batch, k, cutoff, ridge, here(s), own);
  y.copy_(own);
}

void cholesky(int64_t batch, int64_t n, const Tensor& l) {
  const Tensor own = here(l);
  cpu::cholesky(batch, n, own);
  l.copy_(own);
}

void triangular_solve(int64_t batch, int64_t n, int64_t columns, bool lower, bool transposed, const Tensor& t,
                      const Tensor& b) {
  const Tensor own = here(b);
  cpu::triangular_solve(batch, n, columns, lower, transposed, here(t), own);
  b.copy_(own);
}

void solve(int64_t batch, int64_t n, int64_t columns, const Tensor& a, const Tensor& bt) {
  const Tensor own = here(bt);
  cpu::solve(batch, n, columns, here(a), own);
  bt.copy_(own);
}

}  // namespace bochner::cuda
