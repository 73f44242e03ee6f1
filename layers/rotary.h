// Rotary positions (Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021): queries and keys are turned by angles that grow
// with their positions, so that q_i . k_j depends on the positions through j - i alone.
#pragma once

#include "autograd/variable.h"

namespace bochner {

class RotaryPositions {
 public:
  /// For vectors of an even size `dim`, at most `length` in a sequence; an Error otherwise.
  RotaryPositions(int64_t length, int64_t dim);

  /// Turns the first `turned` vectors of the token at position t, counted from `first`, in each of their dim / 2 planes
  /// (RoFormer Eqs. 14, 15, 34) by the angles t w_j with w_j = 10000^(-2j / dim), as engine/ops/rotary.h says. RoFormer
  /// pairs neighbouring numbers instead of the two halves of a vector, which are the same planes in another order, that
  /// of rows of the projections. x (batch, at most length - first, vectors, dim) -> the same.
  Variable turn(const Variable& x, int64_t turned, int64_t first = 0) const;

 private:
  Tensor cosines_, sines_;                        ///< f64 (length, dim / 2)
  mutable Tensor placed_cosines_, placed_sines_;  ///< the same, as the latest input needs them
};

}  // namespace bochner
