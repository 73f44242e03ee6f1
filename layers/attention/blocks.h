// Helpers that the attentions with fixed patterns share: splitting tokens into blocks, gathering the neighbours of a
// block, and a softmax over several sets of keys.
#pragma once

#include <limits>
#include <vector>

#include "engine/ops/dropout.h"
#include "layers/attention/mechanism.h"

namespace bochner {

/// bool (batch, length), true at real keys.
Tensor real_keys(const Mask& mask, const Variable& K);
/// The same for any tokens x (batch, heads, length, dim): `mask`, or all true if it is undefined.
Tensor real_tokens(const Tensor& mask, const Variable& x);
/// The number of real tokens in each example: bool (batch, length) -> i64 (batch, 1)
Tensor count_of(const Tensor& real);
/// The positions of the real tokens of each example, ascending; all positions if the mask is undefined.
std::vector<std::vector<int64_t>> real_positions(const Tensor& keys, int64_t batch, int64_t length);
/// x (B, H, L, D) with zeros at the keys that the mask (B, L) marks as padding.
Variable without_padding(const Variable& x, const Tensor& keys);

/// (B, H, L, D) -> (B, H, N, block, D), N = ceil(L / block), padded with zeros at the end.
Variable in_blocks(const Variable& x, int64_t block);
/// The inverse: (B, H, N, block, D) -> (B, H, length, D).
Variable out_of_blocks(const Variable& x, int64_t length);
/// The same, but block n holds every N-th token, starting with token n, as in LRA's code.
Variable in_strides(const Variable& x, int64_t block);
Variable out_of_strides(const Variable& x, int64_t length);
/// The same for a mask: (B, L) -> (B, 1, N, 1, block), padded with false at the end.
Tensor mask_in_blocks(const Tensor& keys, int64_t block);

/// Each block together with its `before` predecessors and `after` successors, in order; zeros (false) beyond the ends:
/// (B, H, N, block, D) -> (B, H, N, (before + 1 + after) block, D).
Variable with_neighbours(const Variable& x, int64_t before, int64_t after);
/// (B, 1, N, 1, block) -> (B, 1, N, 1, (before + 1 + after) block)
Tensor mask_with_neighbours(const Tensor& x, int64_t before, int64_t after);

/// The score of a masked key, for a softmax in which a query that sees no key gets zeros.
inline constexpr double kHidden = -std::numeric_limits<double>::infinity();
/// The same where all keys may be masked and exponentials must stay finite: next to any other score, its weight is 0.
inline constexpr double kNegligible = -1e30;

/// Keys and values that blocks of queries see.
struct KeySet {
  Variable K;      ///< (..., m, D)
  Variable V;      ///< (..., m, E)
  Tensor visible;  ///< bool, broadcasts to (..., n, m); undefined: all
};

/// O = softmax(scale Q K^T) V over the visible keys of all sets: Q (..., n, D) -> (..., n, E). Leading axes of the sets
/// broadcast to those of Q. A query that sees no key gets zeros. In training, dropout is applied to the attention
/// weights.
Variable attend(const Variable& Q, const std::vector<KeySet>& sets, double scale, double dropout, Context& context);

/// The same from given scores (..., n, m).
Variable attend_scores(const Variable& scores, const Variable& V, const Tensor& visible, double dropout,
                       Context& context);

/// Dropout, in training, of the weights of `keys` keys for each query of Q (B, H, L, D), drawn from the context's
/// generator.
Dropout dropout_of_weights(double rate, const Variable& Q, int64_t keys, Context& context);

/// A generator seeded from the context's. Each position gets its own fork, so that what is drawn for a position does
/// not depend on the number of positions, padding included.
Generator for_places(Context& context);

/// The numbers 0 ... count - 1, i64, along `axis` of a tensor of `rank` axes; all other axes have size 1.
Tensor places(int64_t count, int axis, int rank, Device device);

}  // namespace bochner
