// Sums over the shards of a batch that are the same bits for any number of processes.
//
// A batch is cut into a fixed number of shards, the leaves of one binary tree:  sum[b, e) = sum[b, m) + sum[m, e)  with
// m = (b + e) / 2. Each process holds neighbouring leaves, so every addition belongs to the tree, whichever process
// makes it; the processes only exchange the sums of subtrees that lie in one of them.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/tensor.h"

namespace bochner {

class ShardTree {
 public:
  /// Leaves [begin, end): a node of the tree.
  struct Node {
    int begin = 0;
    int end = 0;
    bool is_leaf() const { return end - begin == 1; }
    Node left() const { return {begin, (begin + end) / 2}; }
    Node right() const { return {(begin + end) / 2, end}; }
  };

  /// Divides the leaves so that their numbers differ by at most one and each process holds few subtrees. An Error if
  /// there are fewer shards than processes.
  ShardTree(int shards, int processes);
  /// Process `first` + r holds the leaves [begins[r], begins[r + 1]), at least one each: some of a Communicator's
  /// processes, and only these sum.
  ShardTree(std::vector<int> begins, int first);

  int shards() const { return begins_.back(); }
  /// The leaves that a process holds, as one range.
  Node leaves_of(int rank) const;
  /// The process that holds a leaf.
  int holder_of(int leaf) const;
  /// The largest subtrees whose leaves this process holds, from left to right. With 8 shards it is one, and with 3
  /// processes two; in general it is one if the number of processes is a power of two that divides the shards.
  std::vector<Node> held_by(int rank) const;

  /// Given this process's sums of the subtrees that it holds (contiguous, where the Communicator transfers memory, of
  /// the same size and type), returns the sum over all shards, in every process. Each of P processes adds one part of
  /// the numbers for all: one that holds k subtrees sends (k + 1) (P - 1) / P times the numbers' bytes, at most twice
  /// with 8 shards.
  Tensor sum(Communicator& comm, const std::vector<Tensor>& held) const { return begin_sum(comm, held, 0)->wait(); }
  /// Such a sum in progress, while its caller does other work and calls test() now and then.
  class Sum {
   public:
    /// Continues as far as possible without waiting; returns whether it is done.
    bool test();
    /// The sum, once it is done.
    Tensor wait();

   private:
    friend class ShardTree;
    Sum(const ShardTree& tree, Communicator& comm, const std::vector<Tensor>& held, int channel);
    Tensor part_of(const Tensor& all, int r) const;
    void begin(std::vector<Communicator::Outgoing> out, std::vector<Communicator::Incoming> in, int channel);
    void add_and_hand_out();

    const ShardTree& tree_;
    Communicator& comm_;
    int channel_;
    std::vector<Tensor> held_;   ///< of this process: they are being sent
    std::vector<Node> nodes_;    ///< all subtrees, in the order of their leaves
    std::vector<Tensor> parts_;  ///< the part of their sums that this process adds
    Tensor total_;               ///< defined once that is done
    std::unique_ptr<Communicator::Transfer> transfer_;
  };
  /// Begins a sum, in this channel and the next one. All processes must begin the sums of a channel in the same order,
  /// and call test() or wait() of one only when those before it are done.
  std::unique_ptr<Sum> begin_sum(Communicator& comm, const std::vector<Tensor>& held, int channel) const;
  /// The same from the tensors of this process's leaves, of any shape.
  Tensor sum_of_leaves(Communicator& comm, const std::vector<Tensor>& leaves) const;

 private:
  int processes() const { return static_cast<int>(begins_.size()) - 1; }

  std::vector<int> begins_;  ///< of the processes' leaves, and the end
  int first_ = 0;            ///< the first of these processes
};

}  // namespace bochner
