// Memory for time, on long sequences: a block that runs a second time in backward, instead of keeping what it would
// need.
//
// The second run must do what the first one did. So its random numbers are the same ones, and what the block does to
// its own state (it counts, draws features, moves running statistics) is done by the first run alone: see once().
#pragma once

#include <functional>
#include <vector>

#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {

/// y = f(inputs) without keeping what f remembers: backward runs f again. f draws its random numbers from `generator`,
/// which is wound back for the second run and must outlive the tape. Gradients flow to `inputs` and to the parameters f
/// uses, which must not change before backward: an Error names the one that did. The result cannot be differentiated
/// twice.
Variable recompute(const std::function<Variable(const std::vector<Variable>&)>& f, const std::vector<Variable>& inputs,
                   Generator& generator);

/// f(); but in the second run of a block, what f returned in the first one, without calling it. For all that changes a
/// module's state in a forward pass, and for what is read of a state that may change before backward.
Tensor once(const std::function<Tensor()>& f);

/// A block that runs twice, while it runs.
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
                         const std::vector<Variable>& inputs, const Variable& g, Record& record);

  static thread_local Recomputation* current_;

  Recomputation* outer_;
  Record& record_;
  bool again_;
  size_t next_ = 0;  ///< of what was done once, in the second run
};

}  // namespace bochner
