// Bundling (SNNK 3.3): sequences of SNNK and linear layers as y = W Phi(x) + b, where only W and b hold parameters.
//
// A linear layer after features is multiplied into W; one before features into their projection, as
// G (W x + b') = (G W) x + G b' (two_tower_features.h). So a sequence of layers collapses exactly:
//
//   Bundle bundle({}, {&snnk1, &linear, &snnk2, &classifier});     // bundle.forward(x) is the same, up to rounding
//
// A plain network f_L(W_L ... f_1(W_1 x + b_1) ... + b_L) is bundled in expectation, one layer after the other
// (Eqs. 12-14): Phi = Phi_L(... Phi_1(x)), W = Psi_L(W_L Psi_L-1(... Psi_1(W_1, b_1) ...), b_L).
#pragma once

#include <deque>

#include "layers/snnk/ridge.h"
#include "layers/snnk/snnk.h"

namespace bochner {

/// A layer of a plain network: activation(linear(x)); "identity" only for the last.
struct NetworkLayer {
  const Linear* linear = nullptr;
  std::string activation;
};

class Bundle : public Module {
 public:
  /// Bundles a sequence of Snnk and Linear layers, which are not changed. An Error names a layer of another kind, or
  /// sizes that do not fit.
  Bundle(Slot slot, const std::vector<const Module*>& run);
  /// Bundles a plain network, whose activations replace the `activation` of the options.
  static Bundle of_network(Slot slot, const std::vector<NetworkLayer>& layers, const SnnkOptions& options,
                           Generator& init);

  /// (..., inputs) -> (..., outputs)
  Variable forward(const Variable& x) const;
  /// Phi: (..., inputs) -> (..., features)
  Variable features(const Variable& x) const;
  /// W phi + b: (..., features) -> (..., outputs)
  Variable scores(const Variable& phi) const;
  /// dy/dx in closed form, without backpropagation: (n, inputs) -> (n, outputs, inputs)
  Tensor jacobian(const Tensor& x) const;

  /// Sets W and b by ridge regression of Y (n, outputs) on Phi(X), X (n, inputs), processed in pieces of rows; from
  /// then on the bundle has a bias. Returns the least sum of squares (RidgeFit::Solution). This needs no
  /// backpropagation (SNNK J.3).
  double fit(const Tensor& X, const Tensor& Y, double ridge = 0);

  int64_t inputs() const;
  int64_t outputs() const { return weight_->shape()[0]; }
  int64_t stages() const { return static_cast<int64_t>(stages_.size()); }
  /// Multiplications and additions of one row.
  int64_t flops() const;

  Parameter& weight() { return *weight_; }
  /// Null until fit() if no layer after the last features had a bias.
  Parameter* bias() { return bias_; }

 private:
  Bundle(Slot slot, const std::vector<NetworkLayer>& layers, const SnnkOptions& options, Generator& init);
  void set(const Tensor& W, const Tensor& b);

  std::deque<std::unique_ptr<TwoTowerFeatures>> stages_;
  Parameter* weight_ = nullptr;  ///< (outputs, features)
  Parameter* bias_ = nullptr;
};

}  // namespace bochner
