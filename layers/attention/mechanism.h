// An attention mechanism maps Q, K, V of shape (batch, heads, length, dim) to the weighted means O of the same shape.
// The projections belong to MultiHeadAttention; a mechanism is the attention alone. To add one, write in one file a
// class with a struct of its options and its describe_NAME, and list it in registry.cpp.
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
  /// Whether Q, K and V may be bf16; O is then bf16, too. Otherwise they are passed in f32.
  virtual bool reads_bf16() const { return false; }
  /// Whether Q, K and V may be slices of their sequences (Context::slice).
  virtual bool takes_slices() const { return false; }
  /// The frequencies of a forward pass that draws no new ones: Omega (1 or heads, M, dim); FastFood rounds dim up to a
  /// power of two. Undefined if there are none. Those of the generative kernels differ between training and evaluation,
  /// as BatchNorm does; asking for them in training updates its running statistics.
  virtual Tensor frequencies(bool /*training*/ = false) { return {}; }
};

/// How a mechanism is made from its own struct of options.
struct MechanismMaker {
  std::function<MechanismOptions(const std::string& name)> defaults;
  std::function<std::unique_ptr<Mechanism>(Slot slot, int64_t heads, int64_t dim, const MechanismOptions& options,
                                           Generator& init)>
      make;
};

/// A maker that calls a function of (Slot, int64_t heads, int64_t dim, const Options&, Generator& init).
template <class Options, class Make>
MechanismMaker made_by(Make make) {
  return {[](const std::string& name) { return MechanismOptions::of(name, Options()); },
          [make](Slot slot, int64_t heads, int64_t dim, const MechanismOptions& options, Generator& init) {
            return make(std::move(slot), heads, dim, options.values<Options>(), init);
          }};
}

/// A maker that calls the constructor of `Type` with the same arguments; the options have the type Type::Options.
template <class Type>
MechanismMaker made_as() {
  using Options = typename Type::Options;
  return made_by<Options>([](Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init) {
    return std::make_unique<Type>(std::move(slot), heads, dim, options, init);
  });
}

/// For mechanisms without options.
struct NoOptions {
  void options(OptionList& /*list*/) {}
};

/// An entry of the registry.
struct MechanismInfo {
  std::string name;
  int year = 0;
  std::string paper = {};
  std::string equation = {};
  std::string approximates = {};  ///< empty: exact
  std::string cost = {};          ///< time, in length L, dim D and features M
  bool causal = false;            ///< has a causal form
  bool slices = false;            ///< takes sequences in slices, so that processes can share the work
  std::string learns = {};        ///< its learnable parts, empty for none
  std::string released = {};      ///< what it does differently if its option `as` is `released`; empty: nothing
  std::string skyformer = {};     ///< likewise if it is `skyformer`; empty: nothing
  MechanismMaker maker = {};
  /// Whether the projections of Q, K and V have no bias, whatever their options say; empty: never.
  std::function<bool(const MechanismOptions&)> unbiased = {};

  MechanismOptions defaults() const { return maker.defaults(name); }
};
using Mechanisms = std::vector<MechanismInfo>;

/// All mechanisms, in the order of layers/attention/registry.cpp.
const Mechanisms& mechanisms();
/// Throws the Error that `mechanism` has no causal form, which names the mechanisms that have one.
[[noreturn]] void fail_causal(const std::string& mechanism);
/// Throws the Error that `mechanism` takes only whole sequences, which names the mechanisms that take slices.
[[noreturn]] void fail_slices(const std::string& mechanism);
/// An Error unless queries and keys belong to the same tokens, as `mechanism` needs.
void require_self_attention(const std::string& mechanism, const Variable& Q, const Variable& K);
/// The entry of that name, or an Error that names the nearest one.
const MechanismInfo& mechanism_named(const std::string& name);

/// The mechanism that `options` name, with that many heads of size `dim`. An Error names the mechanism and the option
/// whose value is out of range.
std::unique_ptr<Mechanism> make_mechanism(Slot slot, int64_t heads, int64_t dim, const MechanismOptions& options,
                                          Generator& init);

}  // namespace bochner
