// Universal random features (SNNK 3.1, Eqs. 7-11): an activation with a Fourier measure, at a dot product.
//
//   f(w.x + b) = Re E[ c exp(2 pi i xi b) Lambda_g(rho x) Lambda_g(eta w) ],   rho eta = 2 pi i xi,
//   Lambda_g(z) = (1 - 4A)^(d/4) exp(A |g|^2 + sqrt(1 - 4A) g.z - z.z / 2),    g ~ N(0, I_d),  A <= 0   (Eq. 8)
//
// since E Lambda_g(y) Lambda_g(z) = exp(y.z). With t = 2 pi xi / eta the two sides of one projection g are
//   Phi: (cos, sin)(t s g.x) exp(l + t^2 |x|^2 / 2),   s = sqrt(1 - 4A),  l = (d/4) ln(1 - 4A) + A |g|^2 - ln(m) / 2
//   Psi: (Re, -Im)(c exp(2 pi i xi b)) exp(l + s eta g.w - eta^2 |w|^2 / 2)
// so a projection makes two real features, and their dot product is the real part of the complex one. Factors are
// combined as logarithms, since (1 - 4A)^(d/4) alone overflows f32 at d = 768.
#pragma once

#include <optional>

#include "layers/snnk/measure.h"
#include "layers/snnk/two_tower_features.h"

namespace bochner {

struct UniversalOptions {
  FourierMeasure measure = FourierMeasure::cosine();
  int64_t features = 32;  ///< real ones, even: twice the number of projections m
  double A = 0;           ///< at most 0; optimal_A() is the best for given weights
  /// 1 in the paper's experiments. E |product|^2 is smallest where exp(t^2 |x|^2 + eta^2 |w|^2 / (1 - 8A)) is: at eta =
  /// sqrt(2 pi xi |x| sqrt(1 - 8A) / |w|).
  double eta = 1;
  int64_t block = 1;        ///< projections that share a frequency (block-iid); 1: iid
  bool orthogonal = false;  ///< g of a block of d projections orthogonal: marginally N(0, I), so still unbiased
  double scale = 1;         ///< inputs and weights are multiplied by this: f(scale^2 w.x + b)
  /// Leaves exp(t^2 |x|^2 / 2) out. The layer then computes a damped f, whose c_xi is multiplied by exp(-t^2
  /// |x|^2 / 2), and its features are bounded for any x. It is for layers that are trained afterwards and have a large
  /// |x|.
  bool damped = false;
};

/// The A <= 0 that minimises E |product|^2, which is (with v = 1 - 8A >= 1, see variance())
///   ((1 + v)^2 / 4v)^(d/2) exp(eta^2 |w|^2 / v) times factors without A;
/// setting its derivative to 0: v^2 - (1 + q) v - q = 0, q = 2 eta^2 |w|^2 / d. Only the real side, w, matters.
/// `square_norm` is eta^2 |w|^2, or its mean over several weights.
double optimal_A(double square_norm, int64_t dim);

class UniversalFeatures : public TwoTowerFeatures {
 public:
  UniversalFeatures(Slot slot, int64_t inputs, UniversalOptions options, Generator& init);

  int64_t features() const override { return 2 * rows(); }
  // weights(), variance() and A() use the frequencies and the A of the constructor, which checkpoints do not hold.
  // After load_state() from another draw, forward() follows that draw, and weights() and variance() are an Error.
  Tensor weights(const Tensor& W, const Tensor& b) const override;
  std::unique_ptr<TwoTowerFeatures> after(Slot slot, const Tensor& W, const Tensor& b) const override;
  double A() const { return A_; }

  /// The exact variance of Phi(x).Psi(w, b) over g, for independent projections with the frequencies drawn: with
  /// p = w.x and the product Z = Gamma1 Gamma2 of one projection,
  ///   E |Z|^2 = |c|^2 K exp(t^2 |x|^2 + eta^2 |w|^2 / v),  K = ((1 + v)^2 / 4v)^(d/2)
  ///   E Z^2   = c^2 exp(4 pi i xi b) K exp((eta^2 |w|^2 - t^2 |x|^2) / v + 2 i t eta p (1 + 1 / v))
  ///   Var Re Z = (E |Z|^2 + Re E Z^2) / 2 - (Re c exp(2 pi i xi (p + b)))^2
  double variance(double x_square, double w_square, double product, double b) const;

 protected:
  Variable phi(const Variable& u, const Variable& s) const override;
  Tensor slope(const Tensor& u, const Tensor& s, const Tensor& ds) const override;

 private:
  UniversalFeatures(Slot slot, const UniversalFeatures& other, const Projection& projection);
  std::vector<float> speeds() const;
  void require_own_draw() const;

  int64_t dim_;  ///< d of the layer it was made for
  double A_;
  double eta_;
  bool damped_;
  std::vector<FourierMeasure::Atom> atoms_;  ///< one for each projection: what Psi needs
  // What Phi needs, (m) each:
  Tensor& speed_;      ///< t s: the angle is speed g.x
  Tensor& growth_;     ///< t^2 / 2
  Tensor& log_scale_;  ///< l
};

}  // namespace bochner
