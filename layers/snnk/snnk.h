// SNNK layers: y = W Phi(x) instead of f(W0 x + b0), with W (outputs, features) trained and Phi fixed (SNNK Eq. 4).
//
//   Generator generator(1);
//   Snnk layer = Snnk::from(linear, "relu", 64, generator);   // instead of relu(linear.forward(x))
//
// Parameters and time are O(outputs x features) and O(features (inputs + outputs)) instead of O(outputs x inputs). To
// freeze a layer, call set_trainable(false), as for any module.
#pragma once

#include <optional>

#include "layers/linear.h"
#include "layers/snnk/measure.h"
#include "layers/snnk/two_tower_features.h"

namespace bochner {

struct SnnkOptions {
  /// What the layer stands for, one of snnk_activations():
  ///   relu            arc-cosine features (arc_cosine.h), SNNK's ReLU layer
  ///   sin, cos, gaussian, sinc, smooth-relu    universal random features (universal.h)
  ///   tanh            polynomial features (polynomial.h)
  ///   released-sine, released-cosine    what the published code calls so (released.h)
  std::string activation = "relu";
  /// Universal random features of this measure, instead of the activation's own.
  std::optional<FourierMeasure> measure = {};
  int64_t features = 32;    ///< m: entries of Phi, columns of W; universal features: even, two per projection
  bool orthogonal = false;  ///< projections
  /// Inputs and weights are divided by inputs^(1/4) (SNNK H.2), so the layer stands for f(w.x / sqrt(inputs) + b).
  bool scale_inputs = false;
  /// For universal features. Without a value, A is optimal_A() of the weights that are mapped.
  std::optional<double> A = {};
  double eta = 1;
  int64_t block = 1;
  bool damped = false;
  /// For relu: the order n and a coordinate for the bias.
  int order = 1;
  bool bias_coordinate = false;
};

/// How the weights of an SNNK layer are initialised: as Psi of the weights of a plain layer (SNNK C), or uniformly, as
/// a network draws those of its plain layers.
enum class SnnkStart : unsigned char { psi, spread };

std::vector<std::string> snnk_activations();
/// Whether layers for that activation have universal random features (universal.h).
bool has_universal_features(const std::string& activation);

/// The weights to be mapped overflow, as happens in a deep network that is bundled with few features.
class WeightsOverflow : public Error {
 public:
  using Error::Error;
};

/// The feature map that the options describe. `weights` (outputs, inputs), or undefined, are the weights that will be
/// mapped, from which A is chosen; WeightsOverflow if they have no finite mean square. `layer_inputs` is the number of
/// inputs of the layer that the map stands for, which scale_inputs uses; give it if the map has another number, as in a
/// bundled network.
std::unique_ptr<TwoTowerFeatures> make_features(Slot slot, int64_t inputs, const SnnkOptions& options,
                                                const Tensor& weights, Generator& init,
                                                std::optional<int64_t> layer_inputs = {});

class Snnk : public Module {
 public:
  /// Replaces a new layer: W = Psi of weights and biases drawn like those of PyTorch's Linear.
  Snnk(Slot slot, int64_t inputs, int64_t outputs, const SnnkOptions& options, Generator& init);
  /// Replaces activation(linear): W = Psi(linear.weight, linear.bias).
  Snnk(Slot slot, const Linear& linear, const SnnkOptions& options, Generator& init);
  static Snnk from(const Linear& linear, std::string activation, int64_t features, Generator& init);

  /// (..., inputs) -> (..., outputs)
  Variable forward(const Variable& x) const;

  const TwoTowerFeatures& features() const { return *features_; }
  int64_t inputs() const { return features_->inputs(); }
  int64_t outputs() const { return weight.shape()[0]; }
  /// Multiplications and additions of matrix products of one row, forward.
  int64_t flops() const { return features_->flops() + 2 * weight.value.size(); }

 private:
  std::unique_ptr<TwoTowerFeatures> features_;  // declared before the weight, which is made from it

 public:
  Parameter& weight;  ///< (outputs, features)
};

}  // namespace bochner
