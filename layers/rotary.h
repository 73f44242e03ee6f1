// Rotary positions (Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021): queries and keys are turned by angles that grow
// with their positions, so that q_i . k_j depends on the positions through j - i alone.
#pragma once

#include "autograd/variable.h"

namespace bochner {

class RotaryPositions {
 public:
  /// For vectors of an even size `dim`, at most `length` in a sequence; an Error otherwise.
  RotaryPositions(int64_t length, int64_t dim);

  /// Turns the vector at position t in each of its dim / 2 planes (RoFormer Eqs. 14, 15, 34):
  ///
  ///   (a_j, b_j) -> (a_j cos t w_j - b_j sin t w_j,  a_j sin t w_j + b_j cos t w_j),  w_j = 10000^(-2j / dim)
  ///
  /// for a vector (a; b) of two halves. RoFormer pairs neighbouring numbers instead, which are the same planes in
  /// another order, that of rows of the projections. x (..., at most length - first, dim) -> the same; positions count
  /// from `first`.
  Variable turn(const Variable& x, int64_t first = 0) const;

 private:
  int64_t dim_;
  Tensor cosines_, sines_;                        ///< f64 (length, dim / 2)
  mutable Tensor placed_cosines_, placed_sines_;  ///< the same, in the type and on the device of the latest input
};

}  // namespace bochner
