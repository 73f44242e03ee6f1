// Copies of weights in the layout that products read, kept between calls.
#pragma once

namespace bochner {

/// While one exists on a thread, the CPU kernels called there keep the packed copies of their weights, and make a new
/// copy only if the weights have been overwritten since (Storage::version). Results do not depend on it. Until it ends,
/// it costs a second copy of the weights; in bf16, half of one. A training step in one piece needs each copy once, so
/// nothing is kept without one; evaluations, and steps in parts, need the copies repeatedly.
class KeepPackedWeights {
 public:
  KeepPackedWeights();
  ~KeepPackedWeights();
  KeepPackedWeights(const KeepPackedWeights&) = delete;
  KeepPackedWeights& operator=(const KeepPackedWeights&) = delete;
};

}  // namespace bochner
