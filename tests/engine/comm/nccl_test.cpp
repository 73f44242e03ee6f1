// NCCL as a Communicator, with the emulated library of tests/emulated_nccl, in processes that are threads of this one.
#include "engine/comm/nccl.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/comm/shard_tree.h"
#include "engine/random.h"
#include "tests/engine/comm/in_threads.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::in_threads;
using test::message_of;

/// Calls body(nccl) in the given number of processes.
void by_nccl(int processes, const std::function<void(Communicator&)>& body) {
  setenv("BOCHNER_NCCL", BOCHNER_EMULATED_NCCL, 1);  // read once, when NCCL is first asked for
  in_threads(processes, [&](Communicator& comm) {
    comm.introduce();
    comm.set_for_cards(nccl_communicator(comm, Device::cpu()));
    body(*comm.for_cards());
    comm.meet();
  });
}

TEST(Nccl, TheSumIsThatOfTheTree) {
  constexpr int kShards = 6;
  constexpr int64_t kSize = 100'003;  // more than a socket holds at once
  Generator generator(3);
  std::vector<Tensor> leaves;
  for (int i = 0; i < kShards; ++i) leaves.push_back(normal({kSize}, generator));
  const Tensor expected = ShardTree(kShards, 1).sum_of_leaves(alone(), leaves);
  for (const int processes : {2, 3, 4}) {
    by_nccl(processes, [&](Communicator& comm) {
      const ShardTree tree(kShards, processes);
      const ShardTree::Node own = tree.leaves_of(comm.rank());
      const std::vector<Tensor> mine(leaves.begin() + own.begin, leaves.begin() + own.end);
      for (int k = 0; k < 3; ++k) {
        EXPECT_EQ(tree.sum_of_leaves(comm, mine).to_vector<float>(), expected.to_vector<float>());
      }
    });
  }
}

TEST(Nccl, ItsOwnSumIsTheSameEverywhere) {
  by_nccl(3, [](Communicator& comm) {
    std::vector<float> values = {1.F + static_cast<float>(comm.rank()), 10.F};
    comm.begin_sum_in_any_order(values)->wait();
    EXPECT_EQ(values, (std::vector<float>{6, 30}));
    EXPECT_EQ(comm.bytes_sent(), 2 * 4 * 2 * 2 / 3);
    EXPECT_EQ(comm.name(), "NCCL 2.21.5");
  });
}

TEST(Nccl, SilenceIsAnErrorAndTheEnd) {
  by_nccl(2, [](Communicator& comm) {
    if (!comm.is_first()) return;
    comm.set_timeout(0.05);
    std::vector<std::byte> place(8);
    const auto receive = [&] { comm.exchange({}, {{1, place}}); };
    const std::string message = message_of(receive);
    EXPECT_TRUE(message.starts_with("NCCL 2.21.5: nothing came from process 1 (pid ")) << message;
    EXPECT_NE(message.find(" for 0.05 seconds"), std::string::npos) << message;
    EXPECT_EQ(message_of(receive), "NCCL: nothing can be sent any more after an error");
  });
}

TEST(Nccl, OneThatIsGoneIsAnError) {
  by_nccl(2, [](Communicator& comm) {
    std::vector<std::byte> place(8);
    if (!comm.is_first()) {
      comm.set_timeout(0.01);
      EXPECT_NE(message_of([&] { comm.exchange({}, {{0, place}}); }), "no error");  // and closes its connections
      return;
    }
    const std::string message = message_of([&] { comm.exchange({}, {{1, place}}); });
    EXPECT_TRUE(message.starts_with("NCCL: a transfer: remote process exited")) << message;
  });
}

}  // namespace
}  // namespace bochner
