// Copies of weights in the layout that products read, kept from call to call.
#pragma once

namespace bochner {

/// While one exists on a thread, the CPU's kernels that are called there keep the packed copies of their weights, and
/// make one anew only where the weights were overwritten since (Storage::version). Results do not depend on it. It
/// costs a second copy of the weights, in bf16 half of one, until it ends. A training step in one piece needs each copy
/// once, so without one nothing is kept; evaluations, and steps in parts, need them again and again.
class KeepPackedWeights {
 public:
  KeepPackedWeights();
  ~KeepPackedWeights();
  KeepPackedWeights(const KeepPackedWeights&) = delete;
  KeepPackedWeights& operator=(const KeepPackedWeights&) = delete;
};

}  // namespace bochner
