// Sums over shards, in processes that are threads of this one.
#include "engine/comm/shard_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/error.h"
#include "engine/random.h"
#include "tests/engine/comm/in_threads.h"

namespace bochner {
namespace {

using test::in_threads;

/// sum[b, e) = sum[b, m) + sum[m, e), m = (b + e) / 2, one number at a time.
float tree_sum(const std::vector<std::vector<float>>& leaves, int begin, int end, size_t i) {
  if (end - begin == 1) return leaves[static_cast<size_t>(begin)][i];
  const int middle = (begin + end) / 2;
  return tree_sum(leaves, begin, middle, i) + tree_sum(leaves, middle, end, i);
}

TEST(ShardTree, TheSumIsThatOfTheTreeForAnyNumberOfProcesses) {
  Generator generator(7);
  for (const int shards : {1, 2, 3, 7, 8, 12}) {
    for (const size_t size : {size_t{1}, size_t{5}, size_t{64}}) {
      std::vector<std::vector<float>> leaves(static_cast<size_t>(shards));
      for (std::vector<float>& leaf : leaves) {
        for (size_t i = 0; i < size; ++i) leaf.push_back(static_cast<float>((generator.uniform() - 0.5) * 1e4));
      }
      std::vector<float> expected;
      for (size_t i = 0; i < size; ++i) expected.push_back(tree_sum(leaves, 0, shards, i));
      for (int processes = 1; processes <= shards; ++processes) {
        in_threads(processes, [&](Communicator& comm) {
          const ShardTree tree(shards, processes);
          std::vector<Tensor> held;
          for (const ShardTree::Node& node : tree.held_by(comm.rank())) {
            std::vector<float> sums;
            for (size_t i = 0; i < size; ++i) sums.push_back(tree_sum(leaves, node.begin, node.end, i));
            held.push_back(Tensor::from(sums, {static_cast<int64_t>(size)}));
          }
          const Tensor total = tree.sum(comm, held);
          EXPECT_EQ(std::memcmp(total.data<float>(), expected.data(), size * sizeof(float)), 0)
              << shards << " shards, " << processes << " processes, rank " << comm.rank();
        });
      }
    }
  }
}

TEST(ShardTree, EachProcessHoldsWholeSubtreesAndAllOfThemHoldAll) {
  for (int shards = 1; shards <= 20; ++shards) {
    for (int processes = 1; processes <= shards; ++processes) {
      const ShardTree tree(shards, processes);
      int next = 0;
      for (int r = 0; r < processes; ++r) {
        for (const ShardTree::Node& node : tree.held_by(r)) {
          EXPECT_EQ(node.begin, next);
          next = node.end;
        }
        const int leaves = tree.leaves_of(r).end - tree.leaves_of(r).begin;
        EXPECT_TRUE(leaves == shards / processes || leaves == (shards - 1) / processes + 1);
        for (int leaf = tree.leaves_of(r).begin; leaf < tree.leaves_of(r).end; ++leaf)
          EXPECT_EQ(tree.holder_of(leaf), r);
      }
      EXPECT_EQ(next, shards);
    }
  }
}

/// The largest number of subtrees of one process, and the total.
std::pair<size_t, size_t> subtrees_of(const ShardTree& tree, int processes) {
  std::pair<size_t, size_t> counts;
  for (int r = 0; r < processes; ++r) {
    const size_t held = tree.held_by(r).size();
    counts = {std::max(counts.first, held), counts.second + held};
  }
  return counts;
}

TEST(ShardTree, NoEvenShareHasFewerSubtrees) {
  for (int shards = 1; shards <= 16; ++shards) {
    for (int processes = 1; processes <= shards; ++processes) {
      const auto found = subtrees_of(ShardTree(shards, processes), processes);
      for (unsigned more = 0; more < 1U << processes; ++more) {  // a bit for each process with one leaf more
        if (std::popcount(more) != shards % processes) continue;
        std::vector<int> begins = {0};
        for (int r = 0; r < processes; ++r) {
          begins.push_back(begins.back() + shards / processes + static_cast<int>(more >> r & 1U));
        }
        EXPECT_LE(found, subtrees_of(ShardTree(begins, 0), processes)) << shards << " shards, " << processes;
      }
    }
  }
}

TEST(ShardTree, SendsTheNumbersOfEightShardsTwiceAtMost) {
  constexpr int64_t kSize = 840;  // which each number of processes divides
  for (int processes = 1; processes <= 8; ++processes) {
    in_threads(processes, [&](Communicator& comm) {
      const ShardTree tree(8, processes);
      const auto held = std::ssize(tree.held_by(comm.rank()));
      tree.sum(comm, std::vector<Tensor>(static_cast<size_t>(held), Tensor::full({kSize}, 1)));
      EXPECT_EQ(comm.bytes_sent(), (held + 1) * 4 * kSize * (processes - 1) / processes);
      EXPECT_LE(comm.bytes_sent(), 2 * 4 * kSize);
    });
  }
}

TEST(ShardTree, RefusesFewerShardsThanProcesses) {
  try {
    const ShardTree tree(2, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "shards: 2 are too few for 3 processes; start at most 2 processes, or take 3 shards");
  }
}

TEST(Communicator, TextsOfAnySizeComeToAll) {
  const std::string text(100000, 'x');
  in_threads(3, [&](Communicator& comm) {
    for (const std::string& one : {std::string(), std::string("short"), text}) {
      EXPECT_EQ(comm.broadcast(comm.is_first() ? one : "mine"), one);
    }
    const std::vector<std::string> all = comm.gather(std::string(static_cast<size_t>(comm.rank()), 'r'));
    if (comm.is_first()) {
      EXPECT_EQ(all, (std::vector<std::string>{"", "r", "rr"}));
    } else {
      EXPECT_TRUE(all.empty());
    }
    EXPECT_EQ(comm.largest(10 * comm.rank()), 20);
    EXPECT_TRUE(comm.any(comm.rank() == 1));
    EXPECT_FALSE(comm.any(false));
    comm.introduce();
    EXPECT_NE(comm.who(2).find("process 2 (pid "), std::string::npos);
  });
}

}  // namespace
}  // namespace bochner
