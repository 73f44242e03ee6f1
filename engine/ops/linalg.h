// Dense linear algebra by LAPACK, on the CPU, in f32 and f64. Matrices are the last two axes; leading axes are a batch.
// A matrix that holds NaN or infinity is an Error that names its place.
//
//   auto [Q, R] = qr(normal({64, 64}, generator), true);     // Q is Haar distributed
//   Tensor w = least_squares(Phi, y, 1e-3);                  // ridge regression on features Phi
#pragma once

#include "engine/tensor.h"

namespace bochner {

struct Qr {
  Tensor q;  ///< (.., m, k), orthonormal columns
  Tensor r;  ///< (.., k, n), upper triangular
};
/// A = Q R with A (.., m, n), k = min(m, n), by Householder reflections. `positive` makes the diagonal of R
/// non-negative, so the factors of a matrix of full rank are unique, and Q of a Gaussian square matrix is uniform on
/// the orthogonal group (Mezzadri, "How to generate random matrices from the classical compact groups", 2007).
Qr qr(const Tensor& a, bool positive = false);

struct Eigh {
  Tensor values;   ///< (.., n), ascending
  Tensor vectors;  ///< (.., n, n), orthonormal columns
};
/// A = V diag(w) V^T with A (.., n, n) symmetric: only its lower triangle is read.
Eigh eigh(const Tensor& a);

struct Svd {
  Tensor u;   ///< (.., m, k), orthonormal columns
  Tensor s;   ///< (.., k), descending, not negative
  Tensor vt;  ///< (.., k, n), orthonormal rows
};
/// A = U diag(s) V^T with A (.., m, n), k = min(m, n).
Svd svd(const Tensor& a);

/// The Moore-Penrose inverse (.., n, m) = V diag(1/s) U^T of A (.., m, n), where singular values up to `cutoff` times
/// the largest count as zero. A negative cutoff means max(m, n) times the type's epsilon.
Tensor pinv(const Tensor& a, double cutoff = -1);

/// L (.., n, n), lower triangular with a positive diagonal, such that A = L L^T. An Error unless A is symmetric and
/// positive definite; only its lower triangle is read.
Tensor cholesky(const Tensor& a);
/// X (.., n, r) with L L^T X = B, for L as from cholesky. The batch axes of both broadcast.
Tensor cholesky_solve(const Tensor& l, const Tensor& b);
/// X with T X = B, or T^T X = B (transposed). T (.., n, n) is lower or upper triangular; its other triangle is ignored,
/// but must be finite. A zero on the diagonal is an Error. The batch axes of both broadcast.
Tensor triangular_solve(const Tensor& t, const Tensor& b, bool lower = true, bool transposed = false);
/// X (.., n, r) with A X = B for any invertible A (.., n, n), by LU with row exchanges; an exactly singular A is an
/// Error.
Tensor solve(const Tensor& a, const Tensor& b);
/// X (.., n, r) that minimises |A X - B|^2 + ridge |X|^2 with A (.., m, n), B (.., m, r): X = V diag(s / (s^2 + ridge))
/// U^T B, where singular values up to max(m, n) epsilon times the largest count as zero. With ridge 0, X is the
/// shortest of all minimisers. A^T A, whose condition number is that of A squared, is never formed.
Tensor least_squares(const Tensor& a, const Tensor& b, double ridge = 0);

}  // namespace bochner
