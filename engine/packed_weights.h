// Copies of weights in the layout that products read, kept between calls.
#pragma once

#include <memory>

namespace bochner {

/// While one exists on a thread, the CPU kernels called there keep the packed copies of their weights, and make a new
/// copy only if the weights have been overwritten since (Storage::version). Results do not depend on it. Until it ends,
/// it costs a second copy of the weights; in bf16, half of one. A training step in one piece needs each copy once, so
/// nothing is kept without one; evaluations, steps in parts, and blocks that run again in backward (recompute) need the
/// copies repeatedly.
class KeepPackedWeights {
 public:
  struct Copies;

  /// Keeps copies or, within another one's lifetime on this thread, adds to that one's.
  KeepPackedWeights();
  /// Adds to copies that were begun earlier or on another thread; null: keeps nothing. Two threads must take turns.
  explicit KeepPackedWeights(std::shared_ptr<Copies> copies);
  ~KeepPackedWeights();
  KeepPackedWeights(const KeepPackedWeights&) = delete;
  KeepPackedWeights& operator=(const KeepPackedWeights&) = delete;

  /// What this thread keeps now, null if it keeps nothing. They last as long as somebody holds them.
  static std::shared_ptr<Copies> here();

 private:
  std::shared_ptr<Copies> outer_;
};

}  // namespace bochner
