// Multi-layer perceptrons, one of whose layers may be an SNNK layer (SNNK 4.2, 4.5, H.5).
//
//   h_0 = x,   h_i = dropout(relu(W_i h_(i-1) + b_i)),   logits = W h + b
//
// Under Precision::bf16 x and the hidden layers are stored in bf16 (mixed_precision.h). The SNNK layer replaces
// relu(W_i h + b_i). If everything after it is linear, it can be bundled with the output layer, which leaves one matrix
// of (classes, features).
#pragma once

#include <deque>
#include <optional>

#include "layers/snnk/bundle.h"

namespace bochner {

struct MlpOptions {
  int64_t inputs = 1;
  std::vector<int64_t> hidden = {512, 512};
  int64_t outputs = 2;
  double dropout = 0;  ///< after each hidden layer
  /// In place of hidden layer number `snnk_layer`, counted from 0.
  std::optional<SnnkOptions> snnk = {};
  int snnk_layer = 1;
  /// Its initial weights; spread: U(+-1 / sqrt(features)), like those of a Linear with that many inputs. Psi of ReLU
  /// features is positive, so that all outputs begin nearly alike.
  SnnkStart snnk_start = SnnkStart::psi;
};

class Mlp : public Module {
 public:
  Mlp(Slot slot, const MlpOptions& options, Generator& init);

  /// (n, inputs) -> (n, outputs)
  Variable forward(const Variable& x, Context& context) const;

  /// The layers from the SNNK layer on as one, for inference. An Error if there is no SNNK layer, or if it is not the
  /// last hidden one.
  std::unique_ptr<Bundle> bundle() const;
  /// The same for a network without SNNK layers: its last hidden layer is first replaced by an SNNK layer with these
  /// options. Bundle::fit can then make the bundle more exact.
  std::unique_ptr<Bundle> bundle(const SnnkOptions& options, Generator& init) const;
  bool ends_in_snnk() const { return !hidden_.empty() && hidden_.back().snnk != nullptr; }
  /// The input of a bundle for x: (n, inputs) -> (n, inputs of the bundle)
  Variable before_bundle(const Variable& x) const;
  /// The weight of the SNNK layer, if there is one.
  std::vector<Parameter*> snnk_weights() const;
  /// The output of forward in evaluation, with the bundle instead of the layers that it was made of.
  Variable forward_bundled(const Variable& x, const Bundle& tail) const;

  /// Multiplications and additions of matrix products of one row, forward.
  int64_t flops() const;
  /// The same with a bundle, and the bytes of the network that remains.
  int64_t flops_bundled(const Bundle& tail) const;
  int64_t bytes_bundled(Bundle& tail) const;

 private:
  struct Layer {
    std::unique_ptr<Linear> linear;
    std::unique_ptr<Snnk> snnk;

    int64_t flops() const;
    int64_t bytes() const { return snnk ? snnk->bytes() : linear->bytes(); }
  };

  MlpOptions options_;
  std::deque<Layer> hidden_;
  Linear output_;
};

}  // namespace bochner
