// y = x W^T + b, and its neighbours in a Transformer block.
#pragma once

#include <memory>
#include <vector>

#include "layers/adapters.h"
#include "layers/module.h"
#include "layers/norm.h"

namespace bochner {

struct LinearOptions {
  enum class Init : unsigned char {
    fan_in,         ///< PyTorch's default: weight and bias U(+-1 / sqrt(inputs))
    xavier,         ///< weight Glorot uniform, bias N(0, 1e-6^2), as in LRA and KL
    xavier_weight,  ///< weight Glorot uniform, bias U(+-1 / sqrt(inputs)), as in the generators of KL's code
    normal          ///< weight N(0, deviation^2), bias 0
  };
  bool bias = true;
  Init init = Init::fan_in;
  double deviation = 0.02;
};

/// What a Linear computes in the same pass as its product:
///   y = residual + dropout(LayerNorm(x) W^T + b)   or   y = dropout(relu(LayerNorm(x) W^T + b))
struct LinearFusion {
  const LayerNorm* norm = nullptr;  ///< of x; null: none
  Variable residual = {};           ///< (..., outputs); undefined: none; not together with relu
  bool relu = false;
  double dropout = 0;  ///< its probability, in training
};

class Linear : public Module {
 public:
  Linear(Slot slot, int64_t inputs, int64_t outputs, Generator& init, LinearOptions options = {});

  /// (..., inputs) -> (..., outputs)
  Variable forward(const Variable& x) const;
  Variable forward(const Variable& x, const LinearFusion& fusion, Context& context) const;

  /// Adds a low-rank update to rows [begin, end) of the weight, as part `name` of this module.
  void add_low_rank(const std::string& name, int64_t begin, int64_t end, const LowRankOptions& options,
                    Generator& init);
  bool has_updates() const { return !updates_.empty(); }
  /// y plus the updates applied to x, without a product with the whole weight, here or in backward.
  /// x (..., inputs), y (..., outputs)
  Variable with_updates(const Variable& x, const Variable& y) const;
  /// Adds the updates to the weight and removes them.
  void merge_updates();

  /// The bias; undefined if there is none.
  Variable bias_or_none() const { return bias == nullptr ? Variable() : *bias; }
  int64_t inputs() const { return weight.shape()[1]; }
  int64_t outputs() const { return weight.shape()[0]; }

  Parameter& weight;  ///< (outputs, inputs)
  Parameter* bias;    ///< (outputs); null if there is none

 private:
  struct Update {
    int64_t begin;  ///< its first row
    std::unique_ptr<LowRank> low_rank;
  };
  std::vector<Update> updates_;
};

}  // namespace bochner
