// The ring of the slices of sequences (sequence_slices.h): slice k hands on to slice k + 1, and the last one to slice
// 0. What one slice has goes round to others, and what these have made of it is summed on a way of the same kind (ring
// attention: Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context", 2023).
//
// A process takes part once, whatever the number of its slices. What goes round is handed on before anyone works on it,
// so all work at the same time, and a process has no more of the others than what goes round now.
#pragma once

#include <vector>

#include "engine/comm/shard_tree.h"

namespace bochner {

/// The slices `first`, first + 1, ... up to `last`; slice 0 comes after the last one of all.
struct SliceTour {
  int first = 0;
  int last = 0;
};

// Each takes what the slices of this process give, in order, and returns as many tensors: on the CPU, contiguous. All
// processes must come here, in the same order; those that no tour passes wait for nobody.

/// The tensor of the tour's first slice, of this shape, for each slice of the tour; undefined for others. Slices of one
/// process get the same memory, and must not write to it. The tensors that are given have one type.
std::vector<Tensor> hand_round(Communicator& comm, const ShardTree& tree, const SliceTour& tour,
                               const std::vector<Tensor>& given, const Shape& shape);
/// For the tour's first slice the sum of what its slices give, of one shape and type, added in the order first + 1,
/// ..., last, first; undefined for others. What slices outside of the tour give is not looked at.
std::vector<Tensor> sum_round(Communicator& comm, const ShardTree& tree, const SliceTour& tour,
                              const std::vector<Tensor>& given);

}  // namespace bochner
