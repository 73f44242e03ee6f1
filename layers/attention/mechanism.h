// An attention mechanism maps Q, K, V of shape (batch, heads, length, dim) to the weighted means O of the same shape.
// Projections stay in MultiHeadAttention, so a mechanism is the kernel alone. To add one, write a class with a struct
// of its options, and its describe_NAME, in one file, and name it in registry.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/attention/options.h"
#include "layers/mask.h"
#include "layers/module.h"

namespace bochner {

class Mechanism : public Module {
 public:
  using Module::Module;
  /// Q (B, H, Lq, D), K, V (B, H, Lk, D) -> (B, H, Lq, D). A query that may look at no key gets zeros.
  virtual Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                           Context& context) = 0;
  /// Whether Q, K, V may be bf16, and then O as well. Otherwise they are passed in f32.
  virtual bool reads_bf16() const { return false; }
  /// Whether Q, K and V may be a slice of their sequences, Context::slice.
  virtual bool takes_slices() const { return false; }
  /// The frequencies of a forward pass that does not draw: Omega (1 or heads, M, dim); FastFood rounds dim up to a
  /// power of two. Undefined where there are none. Those of the generative kernels differ between training and
  /// evaluation, as BatchNorm does; asking for them in training moves its running statistics.
  virtual Tensor frequencies(bool /*training*/ = false) { return {}; }
};

/// How a mechanism is made from options of a struct of its own.
struct MechanismMaker {
  std::function<MechanismOptions(const std::string& name)> defaults;
  std::function<std::unique_ptr<Mechanism>(Slot slot, int64_t heads, int64_t dim, const MechanismOptions& options,
                                           Generator& init)>
      make;
};

/// By a function of (Slot, int64_t heads, int64_t dim, const Options&, Generator& init).
template <class Options, class Make>
MechanismMaker made_by(Make make) {
  return {[](const std::string& name) { return MechanismOptions::of(name, Options()); },
          [make](Slot slot, int64_t heads, int64_t dim, const MechanismOptions& options, Generator& init) {
            return make(std::move(slot), heads, dim, options.values<Options>(), init);
          }};
}

/// By the constructor of `Type` with the same arguments, from options of the type Type::Options.
template <class Type>
MechanismMaker made_as() {
  using Options = typename Type::Options;
  return made_by<Options>([](Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init) {
    return std::make_unique<Type>(std::move(slot), heads, dim, options, init);
  });
}

/// For mechanisms that have none.
struct NoOptions {
  void options(OptionList& /*list*/) {}
};

/// A line of the registry.
struct MechanismInfo {
  std::string name;
  int year = 0;
  std::string paper = {};
  std::string equation = {};
  std::string approximates = {};  ///< empty: exact
  std::string cost = {};          ///< time, in length L, dim D and features M
  bool causal = false;            ///< has a causal form
  bool slices = false;            ///< takes sequences in slices, its work then shared by processes
  std::string learns = {};        ///< its learnable parts, empty for none
  std::string released = {};      ///< what it does otherwise if its option `as` is `released`; empty: nothing
  std::string skyformer = {};     ///< and if it is `skyformer`; empty: nothing
  MechanismMaker maker = {};
  /// Whether the projections of Q, K and V have no bias, whatever their options say; empty: never.
  std::function<bool(const MechanismOptions&)> unbiased = {};

  MechanismOptions defaults() const { return maker.defaults(name); }
};
using Mechanisms = std::vector<MechanismInfo>;

/// All mechanisms, in the order of layers/attention/registry.cpp.
const Mechanisms& mechanisms();
/// The Error that `mechanism` has no causal form; it names those that have one.
[[noreturn]] void fail_causal(const std::string& mechanism);
/// The Error that `mechanism` takes whole sequences only; it names those that take slices.
[[noreturn]] void fail_slices(const std::string& mechanism);
/// Refuses queries and keys that are not of the same tokens, which `mechanism` needs.
void require_self_attention(const std::string& mechanism, const Variable& Q, const Variable& K);
/// The line of that name, or an Error that names the nearest one.
const MechanismInfo& mechanism_named(const std::string& name);

/// The mechanism that `options` name, for so many heads of size `dim`. An Error names the mechanism, and the option
/// whose value is out of its range.
std::unique_ptr<Mechanism> make_mechanism(Slot slot, int64_t heads, int64_t dim, const MechanismOptions& options,
                                          Generator& init);

}  // namespace bochner
