// How the Nystrom methods choose their landmarks. Everything is computed on the tokens' device.
#pragma once

#include "autograd/variable.h"
#include "engine/random.h"

namespace bochner {

/// The rows of (Q; K) that are random landmarks, i64 (B, 1, M, 1): each is uniform among the real tokens of the masks
/// `queries`, bool (B, Lq), and `keys`, bool (B, Lk) (SKY Def. 1). All examples and heads share one draw of M numbers
/// in (0, 1].
Tensor drawn_landmarks(int64_t M, const Tensor& queries, const Tensor& keys, Generator& generator);
/// The same as in Skyformer's released code: half are queries and half are keys, as if real tokens came first.
Tensor drawn_landmarks_as_released(int64_t M, const Tensor& queries, const Tensor& keys, Generator& generator);

/// Landmarks that are means of segments (Nystromformer). If n tokens are divided into c <= M segments, segment m has
/// the tokens of ranks m n / c to (m + 1) n / c, rounded down.
struct Segments {
  Tensor index;   ///< i64 (B, 1, L, 1): the segment of each position
  Tensor shares;  ///< f64 (B, 1, M, 1): 1 / size of the segment, 0 for those beyond c
  Tensor full;    ///< bool (B, M): m < c

  /// x (B, H, L, D), with zeros at tokens that do not count -> (B, H, M, D)
  Variable means(const Variable& x) const;
};

/// The segments for positions of the given ranks, which start at 1: ranks i64 (B, L), n and c i64 (B, 1).
Segments segments(int64_t M, const Tensor& ranks, const Tensor& n, const Tensor& c);

}  // namespace bochner
