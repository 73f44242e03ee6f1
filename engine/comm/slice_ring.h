// The ring of the slices of sequences (sequence_slices.h): slice k passes on to slice k + 1, and the last one to slice
// 0. The data of one slice are passed round to the others, and what these compute from them is summed along the same
// kind of way (ring attention: Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
// Context", 2023).
//
// A process takes part once, whatever the number of its slices. Data are passed on before anyone works on them, so all
// work at the same time, and a process holds no more data of the others than what is passed round at the time.
#pragma once

#include <vector>

#include "engine/comm/shard_tree.h"

namespace bochner {

/// The slices `first`, first + 1, ... up to `last`; slice 0 comes after the last one of all.
struct SliceTour {
  int first = 0;
  int last = 0;
};

// Each takes the tensors of this process's slices, in order, and returns as many tensors: on the CPU, contiguous. All
// processes must call these, in the same order; those that no tour passes do not wait.

/// For each slice of the tour, the tensor of the tour's first slice, of this shape; undefined for others. Slices of one
/// process get the same memory, and must not write to it. The tensors that are given have the same type.
std::vector<Tensor> hand_round(Communicator& comm, const ShardTree& tree, const SliceTour& tour,
                               const std::vector<Tensor>& given, const Shape& shape);
/// For the tour's first slice, the sum of the tensors of its slices, of the same shape and type, added in the order
/// first + 1, ..., last, first; undefined for others. Tensors of slices outside the tour are ignored.
std::vector<Tensor> sum_round(Communicator& comm, const ShardTree& tree, const SliceTour& tour,
                              const std::vector<Tensor>& given);

}  // namespace bochner
