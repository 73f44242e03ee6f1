// Rotary positions (Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021): queries and keys are turned by angles that grow
// with their positions, so that q_i . k_j depends on the positions through j - i alone.
#pragma once

#include "autograd/variable.h"

namespace bochner {

class RotaryPositions {
 public:
  /// For vectors of an even size `dim`, at most `length` in a sequence; an Error otherwise.
  ///
  /// In plane j of dim / 2 the vector of the token at position t is turned by the angle t w_j, w_j = 10000^(-2j / dim)
  /// (RoFormer Eqs. 14, 15, 34). RoFormer pairs neighbouring numbers instead of the two halves of a vector, which are
  /// the same planes in another order, that of rows of the projections.
  ///
  /// With `width` > 0 the tokens are the pixels of an image, row by row, and dim is a multiple of 4. The first half of
  /// the planes turns by the row t / width, the other half by the column t % width, plane j of either by the angle
  /// p w_j, w_j = 100^(-4j / dim) (axial 2D positions: Heo, Park, Han, Yun, "Rotary Position Embedding for Vision
  /// Transformer", 2024, §3.2).
  RotaryPositions(int64_t length, int64_t dim, int64_t width = 0);

  /// Turns the first `turned` vectors of each token, whose position is counted from `first`, as engine/ops/rotary.h
  /// says. x (batch, at most length - first, vectors, dim) -> the same.
  Variable turn(const Variable& x, int64_t turned, int64_t first = 0) const;

 private:
  Tensor cosines_, sines_;                        ///< f64 (length, dim / 2)
  mutable Tensor placed_cosines_, placed_sines_;  ///< the same, as the latest input needs them
};

}  // namespace bochner
