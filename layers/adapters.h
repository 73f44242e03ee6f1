// Modules that are added to a pretrained network and trained instead of it: adapters after its layers, and low-rank
// updates of its matrices. At first an update changes nothing, and a bottleneck, whose weights begin small, very
// little. SNNK's adapter is in layers/snnk/blocks.h.
#pragma once

#include "autograd/fused/bias_activation.h"
#include "layers/module.h"

namespace bochner {

/// A module between a layer and the residual connection.
class Adapter : public Module {
 public:
  using Module::Module;
  /// (..., dim) -> the same
  virtual Variable forward(const Variable& x) const = 0;
};

struct BottleneckOptions {
  int64_t size = 48;  ///< of the bottleneck, between the two products
  Activation activation = Activation::gelu;
  double deviation = 0.01;  ///< of all initial weights; biases are 0
};

/// y = x + W_up act(W_down x + a) + b  (Houlsby et al., "Parameter-Efficient Transfer Learning for NLP", 2019, Fig. 2)
class BottleneckAdapter final : public Adapter {
 public:
  BottleneckAdapter(Slot slot, int64_t dim, const BottleneckOptions& options, Generator& init);
  Variable forward(const Variable& x) const override;

 private:
  Activation activation_;
  Parameter& down_;       ///< (size, dim)
  Parameter& down_bias_;  ///< (size)
  Parameter& up_;         ///< (dim, size)
  Parameter& up_bias_;    ///< (dim)
};

struct LowRankOptions {
  int64_t rank = 8;
  double alpha = 8;
};

/// (alpha / rank) B A, which is added to a matrix (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models",
/// 2022, Eq. 3). A is U(+-1 / sqrt(inputs)) at first, B is 0.
class LowRank : public Module {
 public:
  LowRank(Slot slot, int64_t outputs, int64_t inputs, const LowRankOptions& options, Generator& init);
  double scale() const { return options_.alpha / static_cast<double>(options_.rank); }
  const LowRankOptions& options() const { return options_; }

  Parameter& A;  ///< (rank, inputs)
  Parameter& B;  ///< (outputs, rank)

 private:
  LowRankOptions options_;
};

}  // namespace bochner
