// One training step whose batch is cut into shards, which may be spread over several processes. The gradient, and so
// all that follows from it, is the same to the bit for any number of processes (engine/comm/shard_tree.h).
//
// Each shard may be cut further, into slices of its sequences (engine/comm/sequence_slices.h). Slice k of shard s is
// leaf s K + k of the same tree, so the processes that hold a shard are neighbours.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/tape.h"
#include "engine/comm/sequence_slices.h"
#include "engine/comm/shard_tree.h"
#include "experiments/learners/buffers.h"
#include "experiments/learners/gradient_sums.h"
#include "layers/module.h"

namespace bochner {

class ShardedStep {
 public:
  /// At least this many numbers of gradients are sent together: 1 MiB.
  static constexpr int64_t kBucket = int64_t{1} << 18;
  /// `fast`: processes add their gradients by the library's own sum, in whatever order it uses.
  ShardedStep(Module& model, Communicator& comm, int shards, int slices, bool fast, int64_t bucket = kBucket);

  /// Forward and backward of leaf `i`: a shard or, with several slices, this slice of it. Adds its gradient to the
  /// parameters, and backward tells `completed` of them if that is not empty. Returns what is summed besides the
  /// gradient, such as the loss: f64 (n) on the CPU.
  using Part = std::function<Tensor(int64_t i, SequenceSlice* slice, const Tape::Completed& completed)>;
  /// Runs the shards of this process, and leaves the sum of all gradients in the parameters, which must have no
  /// gradients before. Returns the sum of what the parts returned. `length` is that of the sequences to slice, in
  /// tokens.
  ///
  /// Gradients are sent to the other processes during backward of the last shard here, except those on a GPU, where
  /// each would have to be waited for, and those of slices, which communicate with each other during backward.
  ///
  /// Every part finds the model's buffers as they were before the step, and all must leave them the same. They do if
  /// the changes depend on no example: frequencies from the noise that all examples share, and running statistics over
  /// these. Running statistics over examples are an Error, in the first step.
  Tensor run(const Part& part, int64_t length = 0);

 private:
  struct Sums {
    std::vector<Tensor> gradients;  ///< one for each parameter; undefined where there is none
    Tensor numbers;
  };
  Sums run_part(const Part& part, int64_t i);
  void run_slices(const Part& part, int64_t shard, int64_t length);
  Sums sum_of(ShardTree::Node node, const Part& part, int64_t length);
  ShardTree holders_of(int shard) const;
  std::vector<Tensor> take_gradients();
  void set_out(Parameter& parameter, const std::vector<Sums>& held, GradientSums& sums);
  void compare_buffers(int64_t i);

  Module& model_;
  std::vector<Parameter*> parameters_;
  std::unordered_map<const Parameter*, size_t> numbers_;  ///< of parameters_
  Communicator& comm_;
  ShardTree tree_;
  int slices_;
  bool fast_;
  int64_t bucket_;
  Buffers before_;                           ///< the buffers at the beginning of the step
  std::map<int64_t, Sums> done_;             ///< slices that are not yet added
  std::vector<Sums*> waiting_;               ///< subtrees whose right neighbour runs, largest first
  Tape::Completed completed_;                ///< of the last shard here, if gradients are sent during its backward
  std::vector<bool> has_set_out_;            ///< for each parameter
  std::map<std::string, std::string> left_;  ///< their hashes after the first shard here
  bool compares_ = true;                     ///< in the first step
};

}  // namespace bochner
