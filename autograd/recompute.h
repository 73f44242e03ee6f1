// Saves memory at the cost of time, for long sequences: a block runs a second time in backward instead of keeping what
// backward needs.
//
// The second run must do what the first one did. So it uses the same random numbers, and only the first run changes
// the state of the block (counts, drawn features, running statistics): see once().
#pragma once

#include <functional>
#include <vector>

#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {

/// y = f(inputs) without keeping what backward needs: backward runs f again. f draws its random numbers from
/// `generator`, which is reset for the second run and must outlive the tape. Gradients flow to `inputs` and to the
/// parameters f uses; these must not change before backward, and an Error names one that did. The result cannot be
/// differentiated twice: an Error.
Variable recompute(const std::function<Variable(const std::vector<Variable>&)>& f, const std::vector<Variable>& inputs,
                   Generator& generator);

/// Returns f(). In the second run of a block, it returns what f returned in the first one, without calling f. Use it
/// for everything in a forward pass that changes a module's state or reads a state that may change before backward.
Tensor once(const std::function<Tensor()>& f);

/// A run of a block that runs twice.
class Recomputation {
 public:
  /// A parameter that the block uses.
  static void note(const Parameter& parameter);

 private:
  friend Variable recompute(const std::function<Variable(const std::vector<Variable>&)>&, const std::vector<Variable>&,
                            Generator&);
  friend Tensor once(const std::function<Tensor()>&);
  struct Record;
  Recomputation(Record& record, bool again);
  ~Recomputation();
  static Gradients again(const std::function<Variable(const std::vector<Variable>&)>& f,
                         const std::vector<Variable>& inputs, const std::vector<const Parameter*>& parameters,
                         const Variable& g, Record& record);

  static thread_local Recomputation* current_;

  Recomputation* outer_;
  Record& record_;
  bool again_;
  size_t next_ = 0;  ///< in the second run: the next result of once() to return
};

}  // namespace bochner
