// Fourier measures of activations, from which universal random features draw their frequencies (SNNK Eqs. 5-7).
//
//   f(z) = int FT_f(xi) exp(2 pi i xi z) dxi,    FT_f(-xi) = conj FT_f(xi) as f is real
//        = Re sum_k c_k exp(2 pi i xi_k z)                      (atoms: sine and cosine exactly)
//        = Re int_0^limit 2 FT_f(xi) exp(2 pi i xi z) dxi       (a density)
//
// The paper splits FT_f into four non-negative parts (real, imaginary, positive, negative), samples each and adds (Eq.
// 11). Here the phase stays in the weight c of each frequency, and frequencies are positive. This is the same sum with
// half the features for the same variance, since those at -xi are the conjugates of those at xi.
//
//   const FourierMeasure relu = FourierMeasure::relu(4, 0.25);
//   relu(1.5);                                     // 1.5: what the features estimate at w.x + b = 1.5
#pragma once

#include <complex>
#include <functional>
#include <string>
#include <vector>

#include "engine/random.h"

namespace bochner {

class FourierMeasure {
 public:
  using Complex = std::complex<double>;

  /// The term Re(weight exp(2 pi i frequency z)) of f(z).
  struct Atom {
    double frequency = 0;  ///< xi, in cycles
    Complex weight;        ///< c
  };

  /// sin(omega z) and cos(omega z): one atom at omega / 2 pi.
  static FourierMeasure sine(double omega = 1);
  static FourierMeasure cosine(double omega = 1);
  /// exp(-z^2 / 2). The product's variance is finite for |x| < eta / sqrt(2) (universal.h), as large frequencies of x
  /// weigh exp(|2 pi xi x|^2 / 2).
  static FourierMeasure gaussian();
  /// sin(pi z) / (pi z): frequencies uniform in (0, 1/2).
  static FourierMeasure sinc();
  /// ReLU, truncated and smoothed, since ReLU itself has no integrable transform (after Bresler & Nagaraj, 2020):
  ///   h(z) = max(0, range - |z - range|): ReLU up to z = range, then back to 0 at 2 range;
  ///   f = h convolved with N(0, width^2): differs from ReLU by at most width / sqrt(2 pi), at 0, for z well below
  ///   range;  FT_f(xi) = range^2 sinc(range xi)^2 exp(-2 pi i range xi) exp(-2 pi^2 width^2 xi^2)
  static FourierMeasure relu(double range = 4, double width = 0.25);
  /// A finite sum of exponentials. Frequencies must not be negative: fold FT(-xi) = conj FT(xi) into twice the weight.
  static FourierMeasure atoms(std::string name, std::vector<Atom> atoms);
  /// A real f given by its transform at xi in [0, limit], which counts as 0 beyond. An Error if the transform is not
  /// finite there, like that of tanh at 0.
  static FourierMeasure density(std::string name, const std::function<Complex(double)>& transform, double limit);

  const std::string& name() const { return name_; }
  /// f(z): the sum over the atoms, or the integral by Simpson's rule.
  double operator()(double z) const;
  /// sum |c|, or int |2 FT|: a bound of |f|, and the scale of its estimators' deviation.
  double mass() const { return mass_; }
  bool is_discrete() const { return transform_ == nullptr; }
  const std::vector<Atom>& atoms() const { return atoms_; }

  /// Frequencies and weights with E (1 / count) sum_j Re(c_j exp(2 pi i xi_j z)) = f(z). Atoms are distributed evenly,
  /// without randomness (SNNK, "the case of discrete P"). Of a density, one frequency is drawn for each `block` of them
  /// (block-iid; 1: iid).
  std::vector<Atom> draw(int64_t count, int64_t block, Generator& generator) const;

 private:
  FourierMeasure() = default;

  std::string name_;
  std::vector<Atom> atoms_;
  std::function<Complex(double)> transform_;
  double limit_ = 0;
  double mass_ = 0;
  std::vector<double> cumulative_;  ///< of the proposal: constant within each of equal cells of (0, limit)
};

}  // namespace bochner
