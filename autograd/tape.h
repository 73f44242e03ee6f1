// Reverse-mode differentiation. A tape is an append-only list of nodes, one for each output of an op, in the order of
// computation; backward is a loop over it from the end, in a fixed order. Without a tape, ops only compute (inference).
//
// What an op keeps for its gradient must not change until backward has passed the op. If it was overwritten in place,
// backward fails and names the op (Tensor::version()).
//
// A backward closure takes and returns Variables and is written in ops on Variables, so with `create_graph` it is
// recorded too, and the derivative of a derivative needs no further code. A fused op (autograd/fused) has a
// hand-written backward instead.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/variable.h"

namespace bochner {

/// A named leaf with its gradient. Used in an expression, it is a Variable of the current tape, which keeps the
/// parameter's address: it must neither move nor be destroyed before that tape.
struct Parameter {
  std::string name;  ///< dotted, set by the module that owns it
  Tensor value;
  Tensor grad;  ///< undefined until a backward pass reaches it
  bool trainable = true;

  operator Variable() const;  // NOLINT: a parameter is a variable
  const Shape& shape() const { return value.shape(); }
};

/// One gradient for each input of an op, in order; undefined for inputs that get none.
using Gradients = std::vector<Variable>;
/// Computes the gradients of an op's inputs from those of its outputs. An output that nothing depends on has an
/// undefined gradient.
using Backward = std::function<Gradients(const Gradients&)>;

class Tape {
 public:
  struct Options {
    /// Check each op's output for NaN and +inf as soon as it is computed: an Error names the op and the module.
    bool check_finite = false;
  };

  /// Becomes the current tape of this thread until it is destroyed.
  Tape() : Tape(Options{}) {}
  explicit Tape(Options options);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const Options& options() const { return options_; }

  /// The tape that ops of this thread record on, or null.
  static Tape* current();

  /// A leaf with this value.
  Variable watch(const Tensor& value);
  /// The leaf of a parameter; the same one each time.
  Variable leaf(const Parameter& parameter);

  /// dy/dx for each x, where y has one element; zeros if y does not depend on x. With create_graph the result can be
  /// differentiated again; without it the tape cannot be used again: a later pass is an Error.
  Gradients gradients(const Variable& y, const std::vector<Variable>& xs, bool create_graph = false);
  /// sum_i dys_i . dy_i/dx for each x: the same with given gradients of the outputs.
  Gradients gradients(const std::vector<Variable>& ys, const Gradients& dys, const std::vector<Variable>& xs,
                      bool create_graph = false);
  /// Called with each parameter whose `grad` a backward pass has finished.
  using Completed = std::function<void(Parameter&)>;
  /// Adds dy/dp to the `grad` of every trainable parameter p that y depends on; frees memory as it goes, so that the
  /// tape cannot be used again. Calls `completed`, if it is given, while the pass goes on.
  void backward(const Variable& y, const Completed& completed = {});
  /// The same with given gradients of the outputs.
  void backward(const std::vector<Variable>& ys, const Gradients& dys, const Completed& completed = {});

  /// The gradients at the inputs, given the gradient g of y = f(inputs), as recorded ops on this tape.
  Gradients pull_back(const std::function<Variable(const std::vector<Variable>&)>& f,
                      const std::vector<Variable>& inputs, const Variable& g);

  size_t size() const { return nodes_.size(); }

 private:
  friend class Recomputation;
  friend std::vector<Variable> record(const char*, std::vector<Tensor>, std::initializer_list<const Variable*>,
                                      Backward);
  friend std::vector<Variable> record(const char*, std::vector<Tensor>, const std::vector<Variable>&, Backward);
  struct Node {
    const char* op = nullptr;
    std::vector<int64_t> inputs;  ///< nodes, -1 for constants
    int outputs = 1;              ///< this node and the ones after it belong to one op
    Backward backward;            ///< empty for leaves and for all outputs but the first
    size_t first_held = 0;        ///< its range of held_: [first_held, first_held + held)
    size_t held = 0;
    Parameter* parameter = nullptr;
  };
  std::vector<Variable> append(const char* op, std::vector<Tensor> outputs, std::vector<int64_t> inputs,
                               Backward backward);
  void check_held(const Node& node) const;
  int64_t node_of(const Variable& x) const { return x.tape_ == serial_ ? x.node_ : -1; }
  /// One walk from the end of the tape to its beginning.
  struct Pass {
    bool create_graph = false;
    bool into_parameters = false;
    std::vector<bool> keep = {};  ///< nodes whose gradients are returned; empty: none
    int64_t stop = 0;             ///< the node it ends at
    const Completed* completed = nullptr;
  };
  /// The gradients of all nodes, but undefined where they were not to be kept.
  Gradients run(const std::vector<Variable>& ys, const Gradients& dys, const Pass& pass);

  Options options_;
  uint64_t serial_;
  Tape* previous_;
  std::vector<Node> nodes_;
  std::vector<StorageVersion> held_;  ///< what backward closures hold, with its version when they were recorded
  std::unordered_map<const Parameter*, Variable> leaves_;
  bool used_ = false;  ///< has a pass without create_graph freed what the ops held?
};

/// While it exists, ops of this thread are not recorded.
class NoTape {
 public:
  NoTape();
  ~NoTape();
  NoTape(const NoTape&) = delete;
  NoTape& operator=(const NoTape&) = delete;

 private:
  Tape* previous_;
};

/// The outputs of `op` as Variables: on the current tape if any input is on it, otherwise constants.
/// `backward` should skip the gradients of inputs that are not `tracked()`.
std::vector<Variable> record(const char* op, std::vector<Tensor> outputs, std::initializer_list<const Variable*> inputs,
                             Backward backward);
std::vector<Variable> record(const char* op, std::vector<Tensor> outputs, const std::vector<Variable>& inputs,
                             Backward backward);
/// The same for an op of one output, whose backward takes that output's gradient.
template <class F>
Variable record(const char* op, Tensor output, std::initializer_list<const Variable*> inputs, F&& backward) {
  if (Tape::current() == nullptr) return output;
  return record(op, std::vector<Tensor>{std::move(output)}, inputs,
                Backward([f = std::forward<F>(backward)](const Gradients& g) -> Gradients { return f(g[0]); }))[0];
}
/// The same for a fused op. `composed`, a function of `inputs` in ops on Variables, equals the op and provides the
/// second derivatives. The first ones come from `backward`, a function of the output's gradient, a Tensor, and of
/// `inputs`.
template <class Composed, class F>
Variable record_fused(const char* op, Tensor output, std::vector<Variable> inputs, Composed&& composed, F&& backward) {
  if (Tape::current() == nullptr) return output;
  const Backward either = [inputs, plain = std::forward<Composed>(composed),
                           fused = std::forward<F>(backward)](const Gradients& g) -> Gradients {
    if (Tape* tape = Tape::current()) return tape->pull_back(plain, inputs, g[0]);
    return fused(g[0].value(), inputs);
  };
  return record(op, std::vector<Tensor>{std::move(output)}, inputs, either)[0];
}

}  // namespace bochner
