// Quantum systems whose states and potentials are known in closed form; potentials are learnt from the states.
//
// Both are two oscillators in coordinates u, v, which are rotated against the particles' (mass and hbar are 1):
//   H = -(d^2/du^2 + d^2/dv^2) / 2 + V,   V = (a^2 u^2 + b^2 v^2) / 2
//   psi_(i,j) = h_i(sqrt(a) u) h_j(sqrt(b) v) exp(-(a u^2 + b v^2) / 2),   E_(i,j) = a (i + 1/2) + b (j + 1/2),
// with Hermite polynomials h_0 = 1, h_1(z) = z.
//   harmonic  one particle in a plane: u, v are its coordinates, a = b = 1
//   two-body  two particles on a line, each bound to the origin and both to each other by springs:
//             V = (x1^2 + x2^2) / 2 + k (x1 - x2)^2 / 2,  u = (x1 + x2) / sqrt 2,  v = (x1 - x2) / sqrt 2,
//             a = 1,  b = sqrt(1 + 2 k)
#pragma once

#include <string>
#include <vector>

#include "autograd/variable.h"
#include "engine/random.h"

namespace bochner::qpnn {

class System {
 public:
  static constexpr int kStates = 4;  ///< (0,0), (1,0), (0,1), (1,1)

  static System harmonic();
  static System two_body(double spring);
  /// By the task's name: `harmonic` or `two-body`.
  static System named(const std::string& name, double spring);

  /// psi of a state at x f64 (n, 2): (n, 1), not normalised
  Variable wavefunction(int state, const Variable& x) const;
  double energy(int state) const;
  /// V at x f64 (n, 2): (n)
  Tensor potential(const Tensor& x) const;

 private:
  System(double a, double b, bool rotated) : a_(a), b_(b), rotated_(rotated) {}
  double a_, b_;
  bool rotated_;
};

/// Measurements of some states at some points, from which a potential is learnt.
struct Observations {
  Tensor points;   ///< f32 (n, 2)
  Tensor psi;      ///< f32 (n, states)
  Tensor kinetic;  ///< f32 (n, states): -(Laplacian of psi) / 2, by autograd
};

/// At n points drawn uniformly from [-box, box]^2.
Observations observe(const System& system, int states, int64_t n, double box, Generator& generator);

/// The residual of Schrodinger's equation, which is zero only for the true potential, up to a constant:
///   sum_k mean((T_k + V psi_k - E_k psi_k)^2) / mean(psi_k^2),   E_k = mean(psi_k (T_k + V psi_k)) / mean(psi_k^2).
/// E_k is the same number for all points because energy is conserved. V (n, 1); psi and T as in Observations.
Variable schrodinger_residual(const Variable& V, const Tensor& psi, const Tensor& kinetic);

/// The distance of a potential from the true one, which is known only up to a constant:
///   sqrt(sum rho (V - V' - c)^2 / sum rho (V' - mean V')^2),  with means and the constant c weighted by rho
struct PotentialError {
  double relative;
  double shift;  ///< c
};
PotentialError potential_error(const Tensor& V, const Tensor& truth, const Tensor& rho);

}  // namespace bochner::qpnn
