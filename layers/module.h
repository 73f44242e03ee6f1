// Modules: a tree of named parameters and buffers. A module is built at its place in the tree and never moves. Children
// are plain members, and their names make up the dotted names in checkpoints.
//
//   class FeedForward : public Module {
//    public:
//     FeedForward(Slot slot, int64_t dim, int64_t hidden, Generator& init)
//         : Module(slot), in_(sub("in"), dim, hidden, init), out_(sub("out"), hidden, dim, init) {}
//     Variable forward(const Variable& x) const { return out_.forward(gelu(in_.forward(x))); }
//    private:
//     Linear in_;     // parameters in.weight, in.bias
//     Linear out_;
//   };
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {

class Module;
class SequenceSlice;

/// A place in the tree: the parent and the child's name in it, which may be empty. The root has neither.
struct Slot {
  Module* parent = nullptr;
  std::string name;
};

/// What a forward pass needs besides its inputs.
struct Context {
  static constexpr int64_t kEachForward = -1;

  Generator& generator;   ///< noise of dropout and of random features
  bool training = false;  ///< dropout, batch statistics and redraws are on
  /// Number of the training step. Forward passes of one step, such as those of a dual encoder, have the same number and
  /// the same random features. If it is not set, each forward pass counts as a step.
  int64_t step = kEachForward;
  /// If a batch is processed in parts: the generator of the noise that all parts share, such as random features. If
  /// null, all noise comes from `generator`.
  Generator* shared = nullptr;
  /// Set if the inputs are slices of their sequences (engine/comm/sequence_slices.h); null: they are whole.
  SequenceSlice* slice = nullptr;

  Generator& of_all_examples() const { return shared != nullptr ? *shared : generator; }
};

class Module {
 public:
  explicit Module(Slot slot = {});
  /// Removes it from its parent, if there still is one.
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Dotted name from the root, e.g. `encoder.2.attention`.
  const std::string& path() const { return path_; }
  /// Its own name within the parent.
  const std::string& name() const { return name_; }

  /// All parameters below, in the order of construction.
  std::vector<Parameter*> parameters();
  /// Parameters and buffers (running statistics, drawn features) by dotted name.
  std::map<std::string, Tensor> state();
  /// Copies values into parameters and buffers. An Error names a missing, unexpected or differently shaped tensor.
  void load_state(const std::map<std::string, Tensor>& state);
  /// Moves and converts every parameter and every floating buffer. Call it on a new module, before an optimizer uses
  /// its parameters.
  void to(Device device, DType dtype);
  /// Number of trainable values.
  int64_t parameter_count();
  /// The size of all parameters and buffers, each in its type.
  int64_t bytes();
  /// Sets whether the parameters below get a gradient.
  void set_trainable(bool trainable);
  void clear_gradients();

 protected:
  Slot sub(std::string name) { return {this, std::move(name)}; }
  /// A parameter called `path().name`; lives as long as the module.
  Parameter& parameter(const std::string& name, Tensor value);
  /// A tensor that is saved but not trained. Assign to it freely.
  Tensor& buffer(const std::string& name, Tensor value);

 private:
  struct Buffer {
    std::string name;
    Tensor value;
  };
  template <class F>
  void visit(const F& f);

  Module* parent_;
  std::string name_;
  std::string path_;
  std::deque<Parameter> parameters_;
  std::deque<Buffer> buffers_;
  std::vector<Module*> children_;
};

}  // namespace bochner
