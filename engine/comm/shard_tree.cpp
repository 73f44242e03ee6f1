#include "engine/comm/shard_tree.h"

#include <algorithm>
#include <limits>
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

/// The largest subtrees of `node` whose leaves lie in `range`, from left to right.
void collect(ShardTree::Node node, ShardTree::Node range, std::vector<ShardTree::Node>& found) {
  if (node.end <= range.begin || node.begin >= range.end) return;
  if (node.begin >= range.begin && node.end <= range.end) return found.push_back(node);
  collect(node.left(), range, found);
  collect(node.right(), range, found);
}

/// Where the leaves of each process begin, and the end. Of all ways in which their numbers differ by one at most, it
/// has the fewest subtrees in the process that holds most of them, and among those the fewest in all, since each is
/// sent.
std::vector<int> shared_out(int shards, int processes) {
  const int fewer = shards / processes;
  const int with_more = shards % processes;
  struct Choice {
    int most = std::numeric_limits<int>::max();  ///< subtrees of one process
    int all = 0;
    bool more = false;  ///< whether the last process holds one leaf more
  };
  // best[r][x]: for the first r processes, x of which hold one leaf more than the others
  std::vector best(static_cast<size_t>(processes) + 1, std::vector<Choice>(static_cast<size_t>(with_more) + 1));
  best[0][0].most = 0;
  for (int r = 1; r <= processes; ++r) {
    for (int x = 0; x <= std::min(r, with_more); ++x) {
      Choice& here = best[static_cast<size_t>(r)][static_cast<size_t>(x)];
      const int end = r * fewer + x;
      for (const int more : {0, 1}) {
        if (more > x) continue;
        const Choice& before = best[static_cast<size_t>(r) - 1][static_cast<size_t>(x - more)];
        if (before.most == std::numeric_limits<int>::max()) continue;
        std::vector<ShardTree::Node> held;
        collect({0, shards}, {end - fewer - more, end}, held);
        const auto count = static_cast<int>(held.size());
        const Choice one{std::max(before.most, count), before.all + count, more == 1};
        if (std::pair(one.most, one.all) < std::pair(here.most, here.all)) here = one;
      }
    }
  }
  std::vector<int> begins(static_cast<size_t>(processes) + 1, shards);
  for (int r = processes, x = with_more; r > 0; --r) {
    if (best[static_cast<size_t>(r)][static_cast<size_t>(x)].more) --x;
    begins[static_cast<size_t>(r) - 1] = (r - 1) * fewer + x;
  }
  return begins;
}

}  // namespace

ShardTree::ShardTree(int shards, int processes) {
  if (shards < processes) {
    fail("shards: {} are too few for {} processes; start at most {} processes, or take {} shards", shards, processes,
         shards, processes);
  }
  begins_ = shared_out(shards, processes);
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

std::vector<ShardTree::Node> ShardTree::held_by(int rank) const {
  std::vector<Node> found;
  collect({0, shards()}, leaves_of(rank), found);
  return found;
}

std::unique_ptr<ShardTree::Sum> ShardTree::begin_sum(Communicator& comm, const std::vector<Tensor>& held,
                                                     int channel) const {
  BOCHNER_ASSERT(first_ + processes() <= comm.size() && held.size() == held_by(comm.rank()).size());
  return std::unique_ptr<Sum>(new Sum(*this, comm, held, channel));
}

ShardTree::Sum::Sum(const ShardTree& tree, Communicator& comm, const std::vector<Tensor>& held, int channel)
    : tree_(tree), comm_(comm), channel_(channel), held_(held) {
  const int me = comm.rank() - tree.first_;
  std::vector<Communicator::Outgoing> out;
  std::vector<Communicator::Incoming> in;
  for (int r = 0; r < tree.processes(); ++r) {
    for (const Node& node : tree.held_by(tree.first_ + r)) {
      nodes_.push_back(node);
      if (r == me) continue;
      parts_.push_back(
          Tensor::empty({part_of(held_.front(), me).size()}, held_.front().dtype(), held_.front().device()));
      in.push_back({tree.first_ + r, message_of(parts_.back())});
    }
    for (const Tensor& one : held_) {
      if (r == me) {
        parts_.push_back(part_of(one, me).clone());
      } else {
        out.push_back({tree.first_ + r, message_of(part_of(one, r))});
      }
    }
  }
  begin(out, in, channel_);
}

/// Of all numbers, those that process `first_` + r adds.
Tensor ShardTree::Sum::part_of(const Tensor& all, int r) const {
  const int64_t count = tree_.processes();
  return all.slice(0, r * all.size() / count, (r + 1) * all.size() / count);
}

void ShardTree::Sum::begin(std::vector<Communicator::Outgoing> out, std::vector<Communicator::Incoming> in,
                           int channel) {
  std::erase_if(out, [](const auto& one) { return one.bytes.empty(); });
  std::erase_if(in, [](const auto& one) { return one.bytes.empty(); });
  transfer_ = comm_.begin(out, in, channel);
}

void ShardTree::Sum::add_and_hand_out() {
  const int me = comm_.rank() - tree_.first_;
  size_t next = 0;
  const Tensor mine = add_up({0, tree_.shards()}, nodes_, parts_, next);
  total_ = Tensor::empty({held_.front().size()}, mine.dtype(), mine.device());
  part_of(total_, me).copy_(mine);
  std::vector<Communicator::Outgoing> out;
  std::vector<Communicator::Incoming> in;
  for (int r = 0; r < tree_.processes(); ++r) {
    if (r == me) continue;
    out.push_back({tree_.first_ + r, message_of(part_of(total_, me))});
    in.push_back({tree_.first_ + r, message_of(part_of(total_, r))});
  }
  begin(out, in, channel_ + 1);
}

bool ShardTree::Sum::test() {
  if (!transfer_->test()) return false;
  if (total_.defined()) return true;
  add_and_hand_out();
  return transfer_->test();
}

Tensor ShardTree::Sum::wait() {
  transfer_->wait();
  if (!total_.defined()) {
    add_and_hand_out();
    transfer_->wait();
  }
  return total_;
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
