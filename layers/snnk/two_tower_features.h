// The parts of SNNK layers: a pair of maps with f(w.x + b) = E[Phi(x).Psi(w, b)] (SNNK Eq. 2).
//
// Phi depends on its input only through projections G x and, for some maps, |x|^2. An affine map before it keeps this
// form, G (W x + b) = (G W) x + G b, so a linear layer before a feature map can be absorbed in its projection, exactly.
// Bundling relies on this (SNNK 3.3).
#pragma once

#include <memory>

#include "layers/module.h"

namespace bochner {

/// u = G x + offset and s = |R x + r|^2 of inputs x.
struct Projection {
  Tensor G = {};       ///< (rows, inputs)
  Tensor offset = {};  ///< (rows); undefined: 0
  Tensor R = {};       ///< (k, inputs); undefined: s = scale^2 |x|^2
  Tensor r = {};       ///< (k)
  double scale = 1;
  bool composed = false;  ///< whether it holds another layer's weights

  /// The projection of z = W x + b as a projection of x; b may be undefined. Computed in f64 and rounded to the type of
  /// G.
  Projection after(const Tensor& W, const Tensor& b) const;
};

/// (rows, inputs) of N(0, 1). If `orthogonal`, the rows of a block are orthogonal, each with the same distribution as
/// before.
Tensor gaussian_rows(int64_t rows, int64_t inputs, bool orthogonal, Generator& generator);

class TwoTowerFeatures : public Module {
 public:
  int64_t inputs() const { return G_.size(1); }
  int64_t rows() const { return G_.size(0); }
  virtual int64_t features() const = 0;

  /// Phi: (..., inputs) -> (..., features)
  Variable forward(const Variable& x) const;
  /// Psi: weights (outputs, inputs) and biases (outputs; undefined: 0) of a layer -> f64 (outputs, features). Not for a
  /// map made by after(), whose weights are those of another layer.
  virtual Tensor weights(const Tensor& W, const Tensor& b) const = 0;
  /// dPhi/dx in closed form: (n, inputs) -> (n, features, inputs)
  Tensor jacobian(const Tensor& x) const;
  /// Phi(W x + b) as one map; with W undefined, a copy.
  virtual std::unique_ptr<TwoTowerFeatures> after(Slot slot, const Tensor& W, const Tensor& b) const = 0;
  /// Multiplications and additions of one row of Phi.
  int64_t flops() const;

 protected:
  TwoTowerFeatures(Slot slot, const Projection& projection, bool uses_norm);

  /// Phi from u (n, rows) and s (n, 1), undefined if the map does not use it.
  virtual Variable phi(const Variable& u, const Variable& s) const = 0;
  /// dPhi/dx (n, features, inputs) from u, s and ds/dx (n, inputs).
  virtual Tensor slope(const Tensor& u, const Tensor& s, const Tensor& ds) const = 0;

  /// A copy of this map, composed with an affine map if W is defined.
  Projection projection(const Tensor& W, const Tensor& b) const;
  /// G (W | b): the projections of weights, f64 (outputs, rows), with the offset as factor of the bias.
  Tensor project_weights(const Tensor& W, const Tensor& b) const;
  /// scale^2 |w|^2: f64 (outputs, 1)
  Tensor weight_norms(const Tensor& W) const;
  const Tensor& G() const { return G_; }
  double scale() const { return scale_; }

 private:
  bool composed_;
  double scale_;
  bool uses_norm_;
  Tensor& G_;  ///< buffer `projection`
  Tensor* offset_;
  Tensor* R_;
  Tensor* r_;
};

}  // namespace bochner
