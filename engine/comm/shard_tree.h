// Sums over the shards of a batch that are the same bits for any number of processes.
//
// A batch is cut into a fixed number of shards, the leaves of one binary tree:  sum[b, e) = sum[b, m) + sum[m, e)  with
// m = (b + e) / 2. Process r of P holds the leaves [r S / P, (r + 1) S / P), so every addition belongs to the tree,
// whichever process makes it; the processes only exchange the sums of subtrees that lie in one of them.
#pragma once

#include <functional>
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

  /// An Error if there are fewer shards than processes.
  ShardTree(int shards, int processes);

  int shards() const { return shards_; }
  /// The largest subtrees whose leaves this process holds, from left to right. It is one where the number of processes
  /// is a power of two that divides the shards.
  std::vector<Node> held_by(int rank) const;

  /// Given this process's sums of the subtrees that it holds (contiguous, on the CPU, of one size and type), the sum
  /// over all shards, in every process. Each process adds one part of the numbers for all: it sends and receives twice
  /// the numbers' bytes at most where it holds one subtree.
  Tensor sum(Communicator& comm, const std::vector<Tensor>& held) const;

 private:
  Node held_leaves(int rank) const;
  void collect(Node node, Node within, std::vector<Node>& found) const;

  int shards_;
  int processes_;
};

}  // namespace bochner
