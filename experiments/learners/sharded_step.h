// One training step whose batch is cut into shards, which may lie in several processes. The gradient is the same bits
// for any number of them (engine/comm/shard_tree.h), and so is everything that follows from it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/comm/shard_tree.h"
#include "layers/module.h"

namespace bochner {

class ShardedStep {
 public:
  /// `fast`: processes add their gradients by the library's own sum, in whichever order that has.
  ShardedStep(Module& model, Communicator& comm, int shards, bool fast);

  /// Forward and backward of shard `i`, whose gradient goes to the parameters; returns what is summed besides it, such
  /// as the loss: f64 (n) on the CPU.
  using Part = std::function<Tensor(int64_t i)>;
  /// Runs the shards of this process, and leaves the sum of all gradients in the parameters, which must have none
  /// before. Returns the sum of what the parts returned.
  ///
  /// Every shard finds the model's buffers as they were before the step, and all must leave them the same, as they do
  /// when what changes them depends on no example: frequencies from the noise that all examples share, and running
  /// statistics over these. Running statistics over examples are an Error, in the first step.
  Tensor run(const Part& part);

 private:
  struct Sums {
    std::vector<Tensor> gradients;  ///< one for each parameter; undefined where there is none
    Tensor numbers;
  };
  Sums run_part(const Part& part, int64_t i);
  Sums sum_of(ShardTree::Node node, const Part& part);
  Sums over_processes(std::vector<Sums> held);
  std::map<std::string, Tensor> buffers();
  void compare_buffers(int64_t i);

  Module& model_;
  std::vector<Parameter*> parameters_;
  Communicator& comm_;
  ShardTree tree_;
  bool fast_;
  std::map<std::string, Tensor> before_;     ///< the buffers at the beginning of the step
  std::map<std::string, std::string> left_;  ///< their hashes after the first shard here
  bool compares_ = true;                     ///< in the first step
};

}  // namespace bochner
