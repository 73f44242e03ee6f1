// Where the Nystrom methods take their landmarks. Everything is computed on the tokens' device.
#pragma once

#include "autograd/variable.h"
#include "engine/random.h"

namespace bochner {

/// Rows of (Q; K), i64 (B, 1, M, 1), of random landmarks: each uniform among the tokens that are real by the masks
/// `queries`, bool (B, Lq), and `keys`, bool (B, Lk) (SKY Def. 1). One draw of M places in (0, 1] serves all examples
/// and heads.
Tensor drawn_landmarks(int64_t M, const Tensor& queries, const Tensor& keys, Generator& generator);
/// The same as Skyformer was released: half are queries and half are keys, as if real tokens came first.
Tensor drawn_landmarks_as_released(int64_t M, const Tensor& queries, const Tensor& keys, Generator& generator);

/// Landmarks that are means of segments (Nystromformer): of n tokens in c <= M segments, segment m has the tokens of
/// ranks m n / c to (m + 1) n / c, rounded down.
struct Segments {
  Tensor index;   ///< i64 (B, 1, L, 1): the segment of each place
  Tensor shares;  ///< f64 (B, 1, M, 1): 1 / size of the segment, 0 for those beyond c
  Tensor full;    ///< bool (B, M): m < c

  /// x (B, H, L, D), zeros at tokens that are not counted -> (B, H, M, D)
  Variable means(const Variable& x) const;
};

/// The segments of places whose ranks are given, the first being 1: ranks i64 (B, L), n and c i64 (B, 1).
Segments segments(int64_t M, const Tensor& ranks, const Tensor& n, const Tensor& c);

}  // namespace bochner
