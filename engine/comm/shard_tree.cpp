#include "engine/comm/shard_tree.h"

#include <algorithm>
#include <utility>

#include "engine/comm/messages.h"
#include "engine/error.h"
#include "engine/ops/binary.h"

namespace bochner {
namespace {

/// The sum of `node`, where `sums` has those of subtrees, in the order of their leaves, from `next` on.
Tensor add_up(ShardTree::Node node, const std::vector<ShardTree::Node>& nodes, const std::vector<Tensor>& sums,
              size_t& next) {
  if (nodes.at(next).begin == node.begin && nodes[next].end == node.end) return sums[next++];
  const Tensor left = add_up(node.left(), nodes, sums, next);
  add_(left, add_up(node.right(), nodes, sums, next));
  return left;
}

}  // namespace

ShardTree::ShardTree(int shards, int processes) {
  if (shards < processes) {
    fail("shards: {} are too few for {} processes; start at most {} processes, or take {} shards", shards, processes,
         shards, processes);
  }
  for (int64_t r = 0; r <= processes; ++r) begins_.push_back(static_cast<int>(r * shards / processes));
}

ShardTree::ShardTree(std::vector<int> begins, int first) : begins_(std::move(begins)), first_(first) {
  BOCHNER_ASSERT(begins_.size() > 1 && begins_.front() == 0);
  for (size_t r = 1; r < begins_.size(); ++r) BOCHNER_ASSERT(begins_[r] > begins_[r - 1]);
}

ShardTree::Node ShardTree::leaves_of(int rank) const {
  const auto r = static_cast<size_t>(rank - first_);
  return {begins_.at(r), begins_.at(r + 1)};
}

int ShardTree::holder_of(int leaf) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), leaf);
  return first_ + static_cast<int>(behind - begins_.begin()) - 1;
}

void ShardTree::collect(Node node, Node within, std::vector<Node>& found) const {
  if (node.end <= within.begin || node.begin >= within.end) return;
  if (node.begin >= within.begin && node.end <= within.end) return found.push_back(node);
  collect(node.left(), within, found);
  collect(node.right(), within, found);
}

std::vector<ShardTree::Node> ShardTree::held_by(int rank) const {
  std::vector<Node> found;
  collect({0, shards()}, leaves_of(rank), found);
  return found;
}

Tensor ShardTree::sum(Communicator& comm, const std::vector<Tensor>& held) const {
  const int me = comm.rank() - first_;
  const int count = processes();
  BOCHNER_ASSERT(first_ + count <= comm.size() && held.size() == held_by(comm.rank()).size());
  const Tensor& first = held.front();
  const int64_t size = first.size();
  const auto part_of = [&](const Tensor& all, int rank) {
    return all.slice(0, rank * size / count, (rank + 1) * size / count);
  };
  std::vector<Node> nodes;
  std::vector<Tensor> sums;  // of the part that this process adds
  std::vector<Communicator::Outgoing> out;
  std::vector<Communicator::Incoming> in;
  for (int r = 0; r < count; ++r) {
    for (const Node& node : held_by(first_ + r)) {
      nodes.push_back(node);
      if (r == me) continue;
      sums.push_back(Tensor::empty({part_of(first, me).size()}, first.dtype()));
      in.push_back({first_ + r, message_of(sums.back())});
    }
    if (r == me) {
      for (const Tensor& one : held) sums.push_back(part_of(one, me).clone());
    } else {
      for (const Tensor& one : held) out.push_back({first_ + r, message_of(part_of(one, r))});
    }
  }
  std::erase_if(out, [](const auto& one) { return one.bytes.empty(); });
  std::erase_if(in, [](const auto& one) { return one.bytes.empty(); });
  if (count > 1) comm.exchange(out, in);
  size_t next = 0;
  const Tensor mine = add_up({0, shards()}, nodes, sums, next);

  const Tensor total = Tensor::empty({size}, first.dtype());
  part_of(total, me).copy_(mine);
  out.clear();
  in.clear();
  for (int r = 0; r < count; ++r) {
    if (r == me) continue;
    out.push_back({first_ + r, message_of(mine)});
    in.push_back({first_ + r, message_of(part_of(total, r))});
  }
  std::erase_if(out, [](const auto& one) { return one.bytes.empty(); });
  std::erase_if(in, [](const auto& one) { return one.bytes.empty(); });
  if (count > 1) comm.exchange(out, in);
  return total;
}

Tensor ShardTree::sum_of_leaves(Communicator& comm, const std::vector<Tensor>& leaves) const {
  const Node own = leaves_of(comm.rank());
  BOCHNER_ASSERT(static_cast<int>(leaves.size()) == own.end - own.begin);
  std::vector<Node> nodes;
  std::vector<Tensor> values;
  for (int i = own.begin; i < own.end; ++i) {
    nodes.push_back({i, i + 1});
    const Tensor& leaf = leaves[static_cast<size_t>(i - own.begin)];
    values.push_back(leaf.clone().view({leaf.size()}));  // sums are made in place
  }
  size_t next = 0;
  std::vector<Tensor> held;
  for (const Node& node : held_by(comm.rank())) held.push_back(add_up(node, nodes, values, next));
  return sum(comm, held).view(leaves.front().shape());
}

}  // namespace bochner
