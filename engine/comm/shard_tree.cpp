#include "engine/comm/shard_tree.h"

#include "engine/error.h"
#include "engine/ops/binary.h"

namespace bochner {
namespace {

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), static_cast<size_t>(tensor.size()) * size_of(tensor.dtype())};
}

/// The sum of `node`, where `sums` has those of subtrees, in the order of their leaves, from `next` on.
Tensor add_up(ShardTree::Node node, const std::vector<ShardTree::Node>& nodes, const std::vector<Tensor>& sums,
              size_t& next) {
  if (nodes.at(next).begin == node.begin && nodes[next].end == node.end) return sums[next++];
  const Tensor left = add_up(node.left(), nodes, sums, next);
  add_(left, add_up(node.right(), nodes, sums, next));
  return left;
}

}  // namespace

ShardTree::ShardTree(int shards, int processes) : shards_(shards), processes_(processes) {
  if (shards < processes) {
    fail("shards: {} are too few for {} processes; start at most {} processes, or take {} shards", shards, processes,
         shards, processes);
  }
}

ShardTree::Node ShardTree::held_leaves(int rank) const {
  return {rank * shards_ / processes_, (rank + 1) * shards_ / processes_};
}

void ShardTree::collect(Node node, Node within, std::vector<Node>& found) const {
  if (node.end <= within.begin || node.begin >= within.end) return;
  if (node.begin >= within.begin && node.end <= within.end) return found.push_back(node);
  collect(node.left(), within, found);
  collect(node.right(), within, found);
}

std::vector<ShardTree::Node> ShardTree::held_by(int rank) const {
  std::vector<Node> found;
  collect({0, shards_}, held_leaves(rank), found);
  return found;
}

Tensor ShardTree::sum(Communicator& comm, const std::vector<Tensor>& held) const {
  BOCHNER_ASSERT(comm.size() == processes_ && held.size() == held_by(comm.rank()).size());
  const Tensor& first = held.front();
  const int64_t size = first.size();
  const auto part_of = [&](const Tensor& all, int rank) {
    return all.slice(0, rank * size / processes_, (rank + 1) * size / processes_);
  };
  const int me = comm.rank();

  std::vector<Node> nodes;
  std::vector<Tensor> sums;  // of the part that this process adds
  std::vector<Communicator::Outgoing> out;
  std::vector<Communicator::Incoming> in;
  for (int r = 0; r < processes_; ++r) {
    for (const Node& node : held_by(r)) {
      nodes.push_back(node);
      if (r == me) continue;
      sums.push_back(Tensor::empty({part_of(first, me).size()}, first.dtype()));
      in.push_back({r, bytes_of(sums.back())});
    }
    if (r == me) {
      for (const Tensor& one : held) sums.push_back(part_of(one, me).clone());
    } else {
      for (const Tensor& one : held) out.push_back({r, bytes_of(part_of(one, r))});
    }
  }
  std::erase_if(out, [](const auto& one) { return one.bytes.empty(); });
  std::erase_if(in, [](const auto& one) { return one.bytes.empty(); });
  if (processes_ > 1) comm.exchange(out, in);
  size_t next = 0;
  const Tensor mine = add_up({0, shards_}, nodes, sums, next);

  const Tensor total = Tensor::empty({size}, first.dtype());
  part_of(total, me).copy_(mine);
  out.clear();
  in.clear();
  for (int r = 0; r < processes_; ++r) {
    if (r == me) continue;
    out.push_back({r, bytes_of(mine)});
    in.push_back({r, bytes_of(part_of(total, r))});
  }
  std::erase_if(out, [](const auto& one) { return one.bytes.empty(); });
  std::erase_if(in, [](const auto& one) { return one.bytes.empty(); });
  if (processes_ > 1) comm.exchange(out, in);
  return total;
}

}  // namespace bochner
