// Dense linear algebra of Variables; contracts are in engine/ops/linalg.h. A symmetric argument A has a symmetric
// gradient, that of f((A + A^T) / 2).
//
// Singular vectors and eigenvectors have derivatives only if the singular values (eigenvalues) differ: gradients grow
// as 1 / (s_i - s_j) and are infinite if two are equal. Functions of the values alone do not have this problem.
#pragma once

#include "autograd/variable.h"

namespace bochner {

struct QrVariables {
  Variable q, r;
};
/// A = Q R, A (.., m, n). The first min(m, n) columns of A must be independent.
QrVariables qr(const Variable& a, bool positive = false);

struct EighVariables {
  Variable values, vectors;
};
/// A = V diag(w) V^T, A symmetric.
EighVariables eigh(const Variable& a);

struct SvdVariables {
  Variable u, s, vt;
};
/// A = U diag(s) V^T.
SvdVariables svd(const Variable& a);

/// A = L L^T, A symmetric and positive definite.
Variable cholesky(const Variable& a);
/// X with L L^T X = B.
Variable cholesky_solve(const Variable& l, const Variable& b);
/// X with T X = B, or T^T X = B (transposed). The other triangle of T gets no gradient.
Variable triangular_solve(const Variable& t, const Variable& b, bool lower = true, bool transposed = false);
/// X with A X = B.
Variable solve(const Variable& a, const Variable& b);
/// The Moore-Penrose inverse. Its derivative assumes that the rank does not change.
Variable pinv(const Variable& a, double cutoff = -1);
/// X that minimises |A X - B|^2 + ridge |X|^2.
Variable least_squares(const Variable& a, const Variable& b, double ridge = 0);

}  // namespace bochner
