#include "engine/ops/linalg.h"

#include <limits>

#include "engine/cpu/linalg.h"
#include "engine/cuda/linalg.h"
#include "engine/kernel.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"

namespace bochner {
namespace {

// LAPACK lives on the CPU alone: engine/cuda/linalg.h copies there and back.
constexpr Kernel kCheckFinite{"linalg", &cpu::check_finite, CUDA_KERNEL(check_finite)};
constexpr Kernel kQr{"qr", &cpu::qr, CUDA_KERNEL(qr)};
constexpr Kernel kEigh{"eigh", &cpu::eigh, CUDA_KERNEL(eigh)};
constexpr Kernel kSvd{"svd", &cpu::svd, CUDA_KERNEL(svd)};
constexpr Kernel kInvertSpectrum{"pinv", &cpu::invert_spectrum, CUDA_KERNEL(invert_spectrum)};
constexpr Kernel kCholesky{"cholesky", &cpu::cholesky, CUDA_KERNEL(cholesky)};
constexpr Kernel kTriangularSolve{"triangular_solve", &cpu::triangular_solve, CUDA_KERNEL(triangular_solve)};
constexpr Kernel kSolve{"solve", &cpu::solve, CUDA_KERNEL(solve)};

/// A contiguous stack of finite matrices.
Tensor checked(const Tensor& a, const char* op) {
  if (a.rank() < 2) fail("{}: {} is no matrix; two axes or more are needed", op, a.shape().str());
  require_floating(a.dtype(), op);
  const Tensor rows = a.contiguous();
  kCheckFinite(a.device(), rows, op);
  return rows;
}

Tensor checked_square(const Tensor& a, const char* op) {
  const Tensor rows = checked(a, op);
  if (a.size(-1) != a.size(-2)) fail("{}: {} is not square", op, a.shape().str());
  return rows;
}

int64_t batch_of(const Tensor& a) { return a.size() / (a.size(-1) * a.size(-2)); }

Shape matrix(Shape batch, int64_t m, int64_t n) {
  batch.push_back(m);
  batch.push_back(n);
  return batch;
}

/// Both sides of a linear system, of one type and device, with batch axes broadcast.
struct System {
  Tensor a, b;
};

System matched(const Tensor& a, const Tensor& b, const char* op) {
  const Tensor left = checked_square(a, op);
  const Tensor right = checked(b, op);
  if (a.dtype() != b.dtype() || a.device() != b.device()) {
    fail("{}: {} and {} differ; bring them to one type and device with cast() and to()", op, a.str(), b.str());
  }
  if (a.size(-1) != b.size(-2)) {
    fail("{}: {} and right-hand sides {}: sizes {} and {} differ", op, a.shape().str(), b.shape().str(), a.size(-1),
         b.size(-2));
  }
  const Shape batch = broadcast(a.shape().without_last(2), b.shape().without_last(2), op);
  return {left.expand(matrix(batch, a.size(-2), a.size(-1))), right.expand(matrix(batch, b.size(-2), b.size(-1)))};
}

/// s / (s^2 + ridge) as a column, 0 where s counts as zero in an (m, n) matrix.
Tensor inverse_spectrum(const Tensor& s, int64_t m, int64_t n, double cutoff, double ridge) {
  if (cutoff < 0) {
    const bool single = s.dtype() == DType::f32;
    const double epsilon = single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    cutoff = static_cast<double>(std::max(m, n)) * epsilon;
  }
  const Tensor inverse = Tensor::empty_like(s);
  if (s.size() > 0) kInvertSpectrum(s.device(), s.size() / s.size(-1), s.size(-1), cutoff, ridge, s, inverse);
  return inverse.unsqueeze(-1);
}

}  // namespace

Qr qr(const Tensor& a, bool positive) {
  const Tensor rows = checked(a, "qr");
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const Shape batch = a.shape().without_last(2);
  const Tensor q = Tensor::empty(matrix(batch, m, k), a.dtype(), a.device());
  const Tensor r = Tensor::empty(matrix(batch, k, n), a.dtype(), a.device());
  if (a.size() > 0) kQr(a.device(), batch_of(a), m, n, positive, rows, q, r);
  return {q, r};
}

Eigh eigh(const Tensor& a) {
  const Tensor rows = checked_square(a, "eigh");
  Shape shape = a.shape().without_last(2);
  shape.push_back(a.size(-1));
  const Tensor values = Tensor::empty(shape, a.dtype(), a.device());
  const Tensor vectors = rows.clone();
  if (a.size() > 0) kEigh(a.device(), batch_of(a), a.size(-1), values, vectors);
  return {values, vectors.transpose(-1, -2)};
}

Svd svd(const Tensor& a) {
  const Tensor rows = checked(a, "svd");
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const Shape batch = a.shape().without_last(2);
  Shape spectrum = batch;
  spectrum.push_back(k);
  const Tensor u = Tensor::empty(matrix(batch, m, k), a.dtype(), a.device());
  const Tensor s = Tensor::empty(spectrum, a.dtype(), a.device());
  const Tensor vt = Tensor::empty(matrix(batch, k, n), a.dtype(), a.device());
  if (a.size() > 0) kSvd(a.device(), batch_of(a), m, n, rows, u, s, vt);
  return {u, s, vt};
}

Tensor pinv(const Tensor& a, double cutoff) {
  const auto [u, s, vt] = svd(a);
  const Tensor inverse = inverse_spectrum(s, a.size(-2), a.size(-1), cutoff, 0);  // (.., k, 1)
  return matmul(vt.transpose(-1, -2), inverse * u.transpose(-1, -2));
}

Tensor cholesky(const Tensor& a) {
  const Tensor l = checked_square(a, "cholesky").clone();
  if (a.size() > 0) kCholesky(a.device(), batch_of(a), a.size(-1), l);
  return l;
}

Tensor triangular_solve(const Tensor& t, const Tensor& b, bool lower, bool transposed) {
  const System system = matched(t, b, "triangular_solve");
  const Tensor x = system.b.clone();
  if (x.size() > 0) {
    kTriangularSolve(t.device(), batch_of(x), x.size(-2), x.size(-1), lower, transposed, system.a.contiguous(), x);
  }
  return x;
}

Tensor cholesky_solve(const Tensor& l, const Tensor& b) {
  return triangular_solve(l, triangular_solve(l, b), true, true);
}

Tensor solve(const Tensor& a, const Tensor& b) {
  const System system = matched(a, b, "solve");
  const Tensor xt = system.b.transpose(-1, -2).clone();
  if (xt.size() > 0) kSolve(a.device(), batch_of(xt), xt.size(-1), xt.size(-2), system.a.clone(), xt);
  return xt.transpose(-1, -2);
}

Tensor least_squares(const Tensor& a, const Tensor& b, double ridge) {
  if (!(ridge >= 0)) fail("least_squares: ridge {} must not be negative", ridge);
  const Tensor right = checked(b, "least_squares");
  if (a.rank() < 2 || a.size(-2) != b.size(-2) || a.dtype() != b.dtype()) {
    fail("least_squares: {} and right-hand sides {}: equal types and numbers of rows are needed", a.str(), b.str());
  }
  const auto [u, s, vt] = svd(a);
  const Tensor inverse = inverse_spectrum(s, a.size(-2), a.size(-1), -1, ridge);  // (.., k, 1)
  return matmul(vt.transpose(-1, -2), inverse * matmul(u.transpose(-1, -2), right));
}

}  // namespace bochner
