// The feature maps that the code published with SNNK calls "sine" and "cosine". They estimate neither: with a = f(xi),
// f = sin or cos, xi = +-1 / (2 pi) with equal probability,
//
//   Phi_j(v) = Psi_j(v) = a_j exp(a_j g_j.v - a_j^2 |v|^2 / 2) / sqrt(m),   g ~ N(0, I)
//   E Phi(x).Psi(w) = a^2 exp(a^2 x.w):   0.0251 exp(0.0251 x.w) for sin, 0.9749 exp(0.9749 x.w) for cos
//
// (the cross terms of the two signs of a cancel): a positive, monotone kernel, without bias. If the weights are
// trained anyway, such a layer is a layer of exponentials. It is kept under its own name, so that its results are not
// confused with those of sines.
#pragma once

#include "layers/snnk/two_tower_features.h"

namespace bochner {

struct ReleasedOptions {
  enum class Map : unsigned char { sine, cosine };
  Map map = Map::sine;
  int64_t features = 32;
  bool orthogonal = false;
  double scale = 1;  ///< inputs and weights are multiplied by this
};

class ReleasedFeatures : public TwoTowerFeatures {
 public:
  ReleasedFeatures(Slot slot, int64_t inputs, ReleasedOptions options, Generator& init);

  int64_t features() const override { return rows(); }
  Tensor weights(const Tensor& W, const Tensor& b) const override;
  std::unique_ptr<TwoTowerFeatures> after(Slot slot, const Tensor& W, const Tensor& b) const override;

 protected:
  Variable phi(const Variable& u, const Variable& s) const override;
  Tensor slope(const Tensor& u, const Tensor& s, const Tensor& ds) const override;

 private:
  ReleasedFeatures(Slot slot, const ReleasedFeatures& other, const Projection& projection);

  Tensor& a_;  ///< (m)
};

}  // namespace bochner
