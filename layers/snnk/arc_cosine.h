// ReLU-SNNK (SNNK 3.2, Theorem 3.2): features of the arc-cosine kernels of Cho & Saul.
//
//   Phi(v) = Psi(v) = max(G v, 0)^n / sqrt(m),  G (m, d) of N(0, 1):   E Phi(x).Psi(w) = K_n(x, w) / 2
//   K_n(x, y) = |x|^n |y|^n J_n(angle(x, y)) / pi
//   J_n(a) = (-1)^n sin(a)^(2n + 1) ((1 / sin a) d/da)^n ((pi - a) / sin a)
//
// (the paper prints sin^(n + 1), and (v.omega)^n inside ReLU; the kernel of Cho & Saul has 2n + 1, and for even n the
// power comes after the ReLU). n = 1 is the paper's layer; n = 0 gives steps.
#pragma once

#include "layers/snnk/two_tower_features.h"

namespace bochner {

/// K_n of vectors of these norms at this angle in [0, pi].
double arc_cosine_kernel(int n, double x_norm, double y_norm, double angle);

struct ArcCosineOptions {
  int64_t features = 32;    ///< m
  int order = 1;            ///< n
  bool orthogonal = false;  ///< rows of G orthogonal within blocks of d
  double scale = 1;         ///< inputs and weights are multiplied by this
  /// One more coordinate for the bias: (x, 1) and (w, b). The paper leaves the bias out.
  bool bias = false;
  /// max(G v, floor) instead of max(G v, 0), only for n = 1: the released uptraining code has -5 for x.
  double floor = 0;
};

class ArcCosineFeatures : public TwoTowerFeatures {
 public:
  ArcCosineFeatures(Slot slot, int64_t inputs, ArcCosineOptions options, Generator& init);

  int64_t features() const override { return rows(); }
  Tensor weights(const Tensor& W, const Tensor& b) const override;
  std::unique_ptr<TwoTowerFeatures> after(Slot slot, const Tensor& W, const Tensor& b) const override;

 protected:
  Variable phi(const Variable& u, const Variable& s) const override;
  Tensor slope(const Tensor& u, const Tensor& s, const Tensor& ds) const override;

 private:
  ArcCosineFeatures(Slot slot, const ArcCosineFeatures& other, const Projection& projection);
  double unit() const;  ///< 1 / sqrt(m)

  int order_;
  double floor_;
};

}  // namespace bochner
