// What attends: a mechanism maps Q, K, V of shape (batch, heads, length, dim) to the weighted means O of the same
// shape. Projections stay in MultiHeadAttention, so a mechanism is the kernel alone. Adding one: write a class, name it
// in registry.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/mask.h"
#include "layers/module.h"

namespace bochner {

class Mechanism : public Module {
 public:
  using Module::Module;
  /// Q (B, H, Lq, D), K, V (B, H, Lk, D) -> (B, H, Lq, D). A query that may look at no key gets zeros.
  virtual Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                           Context& context) = 0;
};

/// What a mechanism may be told. Each reads the fields that concern it; `describe()` of the registry names them.
struct AttentionOptions {
  enum class As : unsigned char { paper, released };

  int64_t features = 128;  ///< M: rows of Omega, or landmarks
  int64_t redraw = 100;    ///< training steps between draws of frequencies; 0: never; KL: 100, PERF: "periodically"
  bool redraw_in_evaluation = false;  ///< a new draw for each evaluation batch (KL as released)
  int64_t components = 2;             ///< C of the Gaussian mixture (KL Eq. 4)
  /// Added to positive features (PERF A.3) and to the sum of weights (KL). Both act after the shift of the exponents,
  /// through which no gradient flows: 0 makes derivatives exact, but a query without keys is then 0 / 0.
  double eps = 1e-6;
  double denominator_eps = 1e-6;
  double dropout = 0;     ///< of the attention weights, where there are such
  bool streaming = true;  ///< the fused kernels; else the plain composition
  As as = As::paper;      ///< where paper and released code differ
};

/// A line of the registry.
struct MechanismInfo {
  std::string name;
  int year;
  std::string paper;
  std::string equation;
  std::string approximates;  ///< empty: exact
  std::string cost;          ///< time, in length L, dim D and features M
  bool causal;               ///< has a causal form
  std::string learns;        ///< its learnable parts, empty for none
  std::unique_ptr<Mechanism> (*make)(Slot slot, int64_t heads, int64_t dim, const AttentionOptions& options,
                                     Generator& init);
};

/// All mechanisms, in the order of layers/attention/registry.cpp.
const std::vector<MechanismInfo>& mechanisms();
/// The line of that name, or an Error that names the nearest one.
const MechanismInfo& mechanism_named(const std::string& name);

}  // namespace bochner
