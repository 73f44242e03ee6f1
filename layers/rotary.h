// Rotary positions (Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021): queries and keys are rotated by angles that
// grow with their positions, so that q_i . k_j depends on the positions only through j - i.
#pragma once

#include "autograd/variable.h"

namespace bochner {

class RotaryPositions {
 public:
  /// For vectors of an even size `dim`, at most `length` in a sequence; an Error otherwise.
  ///
  /// In plane j of dim / 2, the vector of the token at position t is rotated by the angle t w_j, w_j = 10000^(-2j /
  /// dim) (RoFormer Eqs. 14, 15, 34). RoFormer pairs neighbouring components instead of the two halves of a vector.
  /// These are the same planes in another order, which is only an order of the rows of the projections.
  ///
  /// With `width` > 0 the tokens are the pixels of an image, row by row, and dim is a multiple of 4. The first half of
  /// the planes is rotated by the row p = t / width, the other half by the column p = t % width: plane j of either half
  /// by the angle p w_j, w_j = 100^(-4j / dim) (axial 2D positions: Heo, Park, Han, Yun, "Rotary Position Embedding for
  /// Vision Transformer", 2024, §3.2).
  RotaryPositions(int64_t length, int64_t dim, int64_t width = 0);

  /// Rotates the first `turned` vectors of each token; positions start at `first`. See engine/ops/rotary.h. x (batch,
  /// at most length - first, vectors, dim) -> the same.
  Variable turn(const Variable& x, int64_t turned, int64_t first = 0) const;

 private:
  Tensor cosines_, sines_;                        ///< f64 (length, dim / 2)
  mutable Tensor placed_cosines_, placed_sines_;  ///< the same, in the type and on the device of the latest input
};

}  // namespace bochner
