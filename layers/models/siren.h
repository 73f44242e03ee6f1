// Networks from coordinates to fields (SIREN: Sitzmann et al., 2020), whose hidden layers may be SNNK layers (SNNK
// G.1).
//
//   h_0 = f(omega (W_0 x + b_0)),   h_i = f(omega (W_i h_(i-1) + b_i)),   y = W h + b,     f = sin (SIREN) or tanh
//
// With f = sin, weights are drawn so that every h_i has the same distribution: U(+-1 / inputs) in the first layer and
// U(+-sqrt(6 / inputs) / omega) in the others (SIREN, 3.2). An SNNK layer can replace a hidden layer, including
// f(omega ...).
#pragma once

#include <deque>
#include <optional>

#include "layers/snnk/snnk.h"

namespace bochner {

struct SirenOptions {
  int64_t inputs = 2;
  int64_t outputs = 1;
  int64_t width = 256;
  int64_t hidden = 1;  ///< (width, width) layers between the first and the last
  enum class Activation : unsigned char { sin, tanh } activation = Activation::sin;
  double omega = 30;  ///< of every layer
  /// SNNK layers in place of hidden layers.
  std::optional<SnnkOptions> snnk = {};
  /// Which hidden layers these are, counted from 0; empty: all.
  std::vector<int64_t> snnk_layers = {};
  /// What SNNK layers start as:
  ///   psi      Psi of the weights of the layer they stand for (SNNK C). An estimate from few features is mostly noise
  ///            that all outputs share, and what a network says of x fades from layer to layer.
  ///   spread   W of U(+-bound), bound such that outputs have the variance 1/2 of sines where inputs are sines of
  ///            N(0, 1): as SIREN's own layers are drawn
  SnnkStart snnk_start = SnnkStart::psi;
};

class Siren : public Module {
 public:
  Siren(Slot slot, const SirenOptions& options, Generator& init);

  /// (n, inputs) -> (n, outputs)
  Variable forward(const Variable& x) const;
  /// The weights of the SNNK layers.
  std::vector<Parameter*> snnk_weights() const;

 private:
  struct Layer {
    std::unique_ptr<Linear> linear;
    std::unique_ptr<Snnk> snnk;
  };
  Layer hidden_layer(int64_t i, const SirenOptions& options, Generator& init);
  Variable activate(const Variable& z) const;

  SirenOptions options_;
  Linear first_;
  std::deque<Layer> hidden_;
  Linear last_;
};

/// y and its derivatives with respect to the coordinates, by reverse mode applied twice. Rows must not depend on one
/// another, and y has one column.
struct FieldDerivatives {
  Tensor value;      ///< (n)
  Tensor gradient;   ///< (n, inputs)
  Tensor laplacian;  ///< (n): sum of the second derivatives along each axis
};
FieldDerivatives field_derivatives(const std::function<Variable(const Variable&)>& field, const Tensor& x);

}  // namespace bochner
