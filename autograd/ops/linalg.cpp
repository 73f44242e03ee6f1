#include "autograd/ops/linalg.h"

#include <cmath>
#include <utility>

#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/linalg.h"

namespace bochner {
namespace {

Variable turned(const Variable& a) { return transpose(a, -2, -1); }

/// (n, n), `below` under the diagonal, `diagonal` on it, 0 above.
Variable triangle(int64_t n, double below, double diagonal, const Variable& like) {
  std::vector<double> values(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) values[static_cast<size_t>(i * n + j)] = i == j ? diagonal : below;
  }
  return Tensor::from(values, {n, n}).cast(like.dtype()).to(like.device());
}

Variable identity(int64_t n, const Variable& like) { return triangle(n, 0, 1, like); }

Variable symmetric(const Variable& x) { return (x + turned(x)) * 0.5; }

/// (.., n) -> diag (.., n, n)
Variable diagonal_matrix(const Variable& x) { return unsqueeze(x, -1) * identity(x.size(-1), x); }

/// F_ij = 1 / (x_j - x_i), 0 on the diagonal.
Variable inverse_gaps(const Variable& x) {
  const Variable one = identity(x.size(-1), x);
  return (1 - one) / (unsqueeze(x, -2) - unsqueeze(x, -1) + one);
}

/// X with X R^T = W, R upper triangular.
Variable divide_by_transpose(const Variable& w, const Variable& r) {
  return turned(triangular_solve(r, turned(w), false));
}

Variable zeros_like(const Variable& x) { return Tensor::zeros_like(x.value()); }

/// If a derivative may be differentiated again, the outputs must be functions of the input on the tape.
template <class F, class Outputs>
Outputs on_tape(const Outputs& kept, const F& again) {
  return Tape::current() == nullptr ? kept : again();
}

}  // namespace

// A = Q R with m >= n:  dA = (dQ + Q sym(M)) R^-T,  M = R dR^T - dQ^T Q, sym(M) its lower triangle mirrored
// (Walter & Lehmann, "Algorithmic differentiation of linear algebra functions", 2010).
// Else A = (A1, A2) with A1 = Q R1 square and R2 = Q^T A2:  dA2 = Q dR2, and A2 dR2^T is added to dQ.
QrVariables qr(const Variable& a, bool positive) {
  const Qr made = qr(a.value(), positive);
  const auto backward = [a, positive, made](const Gradients& g) -> Gradients {
    const auto [q, r] = on_tape(QrVariables{made.q, made.r}, [&] { return qr(a, positive); });
    const int64_t n = a.size(-1), k = q.size(-1);
    Variable dq = g[0].defined() ? g[0] : zeros_like(q);
    Variable dr = g[1].defined() ? g[1] : zeros_like(r);
    const Variable r1 = slice(r, -1, 0, k);
    Variable rest;
    if (n > k) {
      const Variable dr2 = slice(dr, -1, k, n);
      rest = matmul(q, dr2);
      dq = dq + matmul(slice(a, -1, k, n), turned(dr2));
      dr = slice(dr, -1, 0, k);
    }
    const Variable m = matmul(r1, turned(dr)) - matmul(turned(dq), q);
    const Variable lower = m * triangle(k, 1, 0.5, m);
    const Variable da = divide_by_transpose(dq + matmul(q, lower + turned(lower)), r1);
    return {rest.defined() ? concat({da, rest}, -1) : da};
  };
  const auto outputs = record("qr", std::vector<Tensor>{made.q, made.r}, {&a}, backward);
  return {outputs[0], outputs[1]};
}

// A = V diag(w) V^T:  dA = V (diag(dw) + F * (V^T dV)) V^T,  F_ij = 1 / (w_j - w_i)
EighVariables eigh(const Variable& a) {
  const Eigh made = eigh(a.value());
  const auto backward = [a, made](const Gradients& g) -> Gradients {
    const auto [w, v] = on_tape(EighVariables{made.values, made.vectors}, [&] { return eigh(a); });
    const Variable dw = g[0].defined() ? g[0] : zeros_like(w);
    Variable inner = diagonal_matrix(dw);
    if (g[1].defined()) inner = inner + inverse_gaps(w) * matmul(turned(v), g[1]);
    return {symmetric(matmul(matmul(v, inner), turned(v)))};
  };
  const auto outputs = record("eigh", std::vector<Tensor>{made.values, made.vectors}, {&a}, backward);
  return {outputs[0], outputs[1]};
}

// A = U S V^T:  dA = U (diag(ds) + (F * skew(U^T dU)) S + S (F * skew(V^T dV))) V^T
//                    + (1 - U U^T) dU S^-1 V^T + U S^-1 dV^T (1 - V V^T),
// F_ij = 1 / (s_j^2 - s_i^2), skew(X) = X - X^T  (Townsend, "Differentiating the singular value decomposition", 2016)
SvdVariables svd(const Variable& a) {
  const Svd made = svd(a.value());
  const auto backward = [a, made](const Gradients& g) -> Gradients {
    const auto [u, s, vt] = on_tape(SvdVariables{made.u, made.s, made.vt}, [&] { return svd(a); });
    const Variable v = turned(vt);
    const Variable row = unsqueeze(s, -2);  // X * row = X S
    Variable inner = diagonal_matrix(g[1].defined() ? g[1] : zeros_like(s));
    Variable outside;
    const Variable gaps = g[0].defined() || g[2].defined() ? inverse_gaps(square(s)) : Variable();
    if (g[0].defined()) {
      const Variable turn = matmul(turned(u), g[0]);
      inner = inner + gaps * (turn - turned(turn)) * row;
      outside = matmul((g[0] - matmul(u, turn)) / row, vt);
    }
    if (g[2].defined()) {
      const Variable dv = turned(g[2]);
      const Variable turn = matmul(vt, dv);
      inner = inner + turned(row) * (gaps * (turn - turned(turn)));
      const Variable more = matmul(u / row, turned(dv - matmul(v, turn)));
      outside = outside.defined() ? outside + more : more;
    }
    const Variable inside = matmul(matmul(u, inner), vt);
    return {outside.defined() ? inside + outside : inside};
  };
  const auto outputs = record("svd", std::vector<Tensor>{made.u, made.s, made.vt}, {&a}, backward);
  return {outputs[0], outputs[1], outputs[2]};
}

// A = L L^T:  dA = sym(L^-T P L^-1), P the lower triangle of L^T dL with half its diagonal  (Murray, "Differentiation
// of the Cholesky decomposition", 2016)
Variable cholesky(const Variable& a) {
  const Tensor made = cholesky(a.value());
  return record("cholesky", made, {&a}, [a, made](const Variable& g) {
    const Variable l = on_tape(Variable(made), [&] { return cholesky(a); });
    const Variable product = matmul(turned(l), g);
    const Variable half = product * triangle(l.size(-1), 1, 0.5, l);
    const Variable left = triangular_solve(l, half, true, true);                         // L^-T P
    return Gradients{symmetric(turned(triangular_solve(l, turned(left), true, true)))};  // (L^-T (L^-T P)^T)^T
  });
}

Variable cholesky_solve(const Variable& l, const Variable& b) {
  return triangular_solve(l, triangular_solve(l, b), true, true);
}

// T X = B:  dB = T^-T G,  dT = -dB X^T;  T^T X = B:  dB = T^-1 G,  dT = -X dB^T;  of dT only the triangle of T
Variable triangular_solve(const Variable& t, const Variable& b, bool lower, bool transposed) {
  const Tensor made = triangular_solve(t.value(), b.value(), lower, transposed);
  return record("triangular_solve", made, {&t, &b}, [t, b, lower, transposed, made](const Variable& g) {
    Gradients result(2);
    const Variable db = triangular_solve(t, g, lower, !transposed);
    if (b.tracked()) result[1] = sum_to(db, b.shape());
    if (!t.tracked()) return result;
    const Variable x = on_tape(Variable(made), [&] { return triangular_solve(t, b, lower, transposed); });
    const Variable dt = transposed ? matmul(x, turned(db)) : matmul(db, turned(x));
    const Variable mask = triangle(t.size(-1), 1, 1, t);
    result[0] = sum_to(-dt * (lower ? mask : turned(mask)), t.shape());
    return result;
  });
}

// A X = B:  dB = A^-T G,  dA = -dB X^T
Variable solve(const Variable& a, const Variable& b) {
  const Tensor made = solve(a.value(), b.value());
  return record("solve", made, {&a, &b}, [a, b, made](const Variable& g) {
    Gradients result(2);
    const Variable db = solve(turned(a), g);
    if (b.tracked()) result[1] = sum_to(db, b.shape());
    if (!a.tracked()) return result;
    const Variable x = on_tape(Variable(made), [&] { return solve(a, b); });
    result[0] = sum_to(-matmul(db, turned(x)), a.shape());
    return result;
  });
}

// P = A^+, as a map from dP to dA for changes that keep the rank (Golub & Pereyra, 1973), where T means transposed:
//   dA = -P^T dP P^T + (1 - A P) dP^T P P^T + P^T P dP^T (1 - P A)
Variable pinv(const Variable& a, double cutoff) {
  const Tensor made = pinv(a.value(), cutoff);
  return record("pinv", made, {&a}, [a, cutoff, made](const Variable& g) {
    const Variable p = on_tape(Variable(made), [&] { return pinv(a, cutoff); });
    const Variable pt = turned(p), gt = turned(g);
    const Variable left = matmul(gt, matmul(p, pt));   // dP^T P P^T
    const Variable right = matmul(matmul(pt, p), gt);  // P^T P dP^T
    return Gradients{left - matmul(a, matmul(p, left)) + right - matmul(matmul(right, p), a) -
                     matmul(pt, matmul(g, pt))};
  });
}

// X = A^+ B; with a ridge, the same for (A; sqrt(ridge) 1) and (B; 0), in double precision: what rounding leaves in
// directions that A does not have is divided by the ridge.
Variable least_squares(const Variable& a, const Variable& b, double ridge) {
  if (!(ridge >= 0)) fail("least_squares: ridge {} must not be negative", ridge);
  if (a.rank() < 2 || b.rank() < 2 || a.size(-2) != b.size(-2) || a.dtype() != b.dtype()) {
    fail("least_squares: {} and right-hand sides {}: equal types and numbers of rows are needed", a.value().str(),
         b.value().str());
  }
  if (ridge == 0) return matmul(pinv(a), b);
  const int64_t m = a.size(-2), n = a.size(-1);
  Shape below = a.shape();
  below[-2] = n;
  const Variable wide = cast(a, DType::f64);
  const Variable tall = concat({wide, expand(identity(n, wide) * std::sqrt(ridge), below)}, -2);  // (.., m + n, n)
  // The last n columns would be multiplied by zeros.
  return cast(matmul(slice(pinv(tall), -1, 0, m), cast(b, DType::f64)), a.dtype());
}

}  // namespace bochner
