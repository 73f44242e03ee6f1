// What the attentions with fixed patterns share: tokens in blocks, neighbours of a block, and a softmax over several
// sets of keys.
#pragma once

#include <limits>
#include <vector>

#include "engine/ops/dropout.h"
#include "layers/attention/mechanism.h"

namespace bochner {

/// bool (batch, length), true at real keys.
Tensor real_keys(const Mask& mask, const Variable& K);
/// The same of any tokens x (batch, heads, length, dim): `mask`, or all where it is undefined.
Tensor real_tokens(const Tensor& mask, const Variable& x);
/// How many are real in each example: bool (batch, length) -> i64 (batch, 1)
Tensor count_of(const Tensor& real);
/// For each example the positions of its real tokens, ascending; all positions where the mask is undefined.
std::vector<std::vector<int64_t>> real_positions(const Tensor& keys, int64_t batch, int64_t length);
/// x (B, H, L, D) with zeros at the keys that are not real by the mask (B, L).
Variable without_padding(const Variable& x, const Tensor& keys);

/// (B, H, L, D) -> (B, H, N, block, D), N = ceil(L / block), zeros behind the end.
Variable in_blocks(const Variable& x, int64_t block);
/// Back: (B, H, N, block, D) -> (B, H, length, D).
Variable out_of_blocks(const Variable& x, int64_t length);
/// The same where block n holds every N-th token from n on, as LRA's code has it.
Variable in_strides(const Variable& x, int64_t block);
Variable out_of_strides(const Variable& x, int64_t length);
/// The same of a mask: (B, L) -> (B, 1, N, 1, block), false behind the end.
Tensor mask_in_blocks(const Tensor& keys, int64_t block);

/// Each block behind its `before` predecessors and in front of its `after` successors; zeros (false) beyond the ends:
/// (B, H, N, block, D) -> (B, H, N, (before + 1 + after) block, D).
Variable with_neighbours(const Variable& x, int64_t before, int64_t after);
/// (B, 1, N, 1, block) -> (B, 1, N, 1, (before + 1 + after) block)
Tensor mask_with_neighbours(const Tensor& x, int64_t before, int64_t after);

/// The score of a hidden key in a softmax, where a query that sees no key gets zeros.
inline constexpr double kHidden = -std::numeric_limits<double>::infinity();
/// The same where all keys may be hidden and exponentials must stay finite: as small as 0 beside any other.
inline constexpr double kNegligible = -1e30;

/// Keys and values that blocks of queries see.
struct KeySet {
  Variable K;      ///< (..., m, D)
  Variable V;      ///< (..., m, E)
  Tensor visible;  ///< bool, broadcasts to (..., n, m); undefined: all
};

/// O = softmax(scale Q K^T) V over the union of the sets, where visible: Q (..., n, D) -> (..., n, E). Leading axes of
/// the sets broadcast to those of Q. A query that sees no key gets zeros. In training, dropout acts on the weights.
Variable attend(const Variable& Q, const std::vector<KeySet>& sets, double scale, double dropout, Context& context);

/// The same from given scores (..., n, m).
Variable attend_scores(const Variable& scores, const Variable& V, const Tensor& visible, double dropout,
                       Context& context);

/// What drops the weights of `keys` keys for each query of Q (B, H, L, D), in training; it draws from the context's
/// stream.
Dropout dropout_of_weights(double rate, const Variable& Q, int64_t keys, Context& context);

/// A generator with a seed from the context's stream: its forks belong to places, so that what is drawn for one place
/// does not depend on how many there are, padding included.
Generator for_places(Context& context);

/// The numbers 0 ... count - 1, i64, along `axis` of a tensor of `rank` axes; all others have size 1.
Tensor places(int64_t count, int axis, int rank, Device device);

}  // namespace bochner
