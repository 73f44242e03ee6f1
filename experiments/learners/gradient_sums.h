// Gradients that are summed over processes while backward continues. They are sent in buckets: each is sent as soon as
// this process has the gradients of all its parameters and the buckets before it have been sent, so all processes send
// theirs in the same order.
//
// Every number is summed on its own in the fixed tree of engine/comm/shard_tree.h, so neither the buckets nor the order
// in which gradients arrive changes a bit.
#pragma once

#include <memory>
#include <vector>

#include "autograd/tape.h"
#include "engine/comm/shard_tree.h"

namespace bochner {

class GradientSums {
 public:
  /// For one step, in the memory of `device`, which `comm` must transfer. `fast`: by the sum of MPI or NCCL, in
  /// whatever order it uses. A bucket is closed when it has `bucket` numbers; its parameters are neighbours in the
  /// model, and the last parameters of the model come first, as in backward. `parameters`, `comm` and `tree` are kept
  /// by reference, and must outlive this object.
  GradientSums(const std::vector<Parameter*>& parameters, Communicator& comm, Device device, const ShardTree& tree,
               bool fast, int64_t bucket);

  /// The gradient of parameter p in each subtree that this process holds: undefined where the subtree has none. The
  /// gradients must not change afterwards. Call it once for each parameter, and in the same order in all processes
  /// where transfers take turns (nccl.h).
  void put(size_t p, std::vector<Tensor> held);
  /// The sums over all processes, one for each parameter: undefined where no process has one. Waits for them; put()
  /// must have been called for all parameters.
  std::vector<Tensor> wait();

 private:
  struct Bucket {
    std::vector<size_t> parameters;
    int64_t size = 0;            ///< of their gradients, in numbers
    size_t missing = 0;          ///< parameters that were not yet put
    std::vector<Tensor> rows{};  ///< for each subtree: the gradients, then for each of them whether there is one
    std::unique_ptr<ShardTree::Sum> sum{};
    std::unique_ptr<Communicator::Transfer> fast_sum{};
  };
  void set_out(Bucket& bucket);
  void go_on();
  void take(Bucket& bucket, std::vector<Tensor>& sums);

  const std::vector<Parameter*>& parameters_;
  Communicator& comm_;
  Device device_;
  const ShardTree& tree_;
  bool fast_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;           ///< each parameter
  std::vector<std::vector<Tensor>> given_;  ///< for each parameter
  size_t sent_ = 0;                         ///< buckets that have been sent
};

}  // namespace bochner
