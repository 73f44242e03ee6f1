// Token embeddings and positions.
#pragma once

#include "layers/module.h"

namespace bochner {

/// A table of vectors, N(0, deviation^2) at first.
class Embedding : public Module {
 public:
  Embedding(Slot slot, int64_t entries, int64_t dim, double deviation, Generator& init);
  /// ids i64 (...) -> (..., dim), in the type in which activations are stored (layers/mixed_precision.h).
  Variable forward(const Tensor& ids) const;
  /// The same with one more term: positions (places, dim), to be added to ids (batch, length), or undefined; and for
  /// many-hot inputs, where token i is a sum of entries, codes[i] W: codes (tokens, entries), or undefined.
  Variable forward(const Tensor& ids, const Variable& positions, const Tensor& codes) const;

  Parameter& weight;  ///< (entries, dim)
};

/// P[i, 2j] = sin(i / 10000^(2j / dim)), P[i, 2j + 1] = cos(i / 10000^(2j / dim))  (Vaswani et al., 2017).
/// The shape is (length, dim).
Tensor sinusoidal_positions(int64_t length, int64_t dim);

}  // namespace bochner
