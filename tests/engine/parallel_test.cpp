#include "engine/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace bochner {
namespace {

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_threads(GetParam()); }
  void TearDown() override { set_threads(before_); }

 private:
  int before_ = threads();
};

TEST_P(Parallel, EveryIndexIsVisitedOnce) {
  for (const int64_t count : {0, 1, 2, 7, 64, 1000}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        EXPECT_LT(begin, end);
        EXPECT_LE(end - begin, grain);
        EXPECT_EQ(begin % grain, 0);
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& visit : visits) EXPECT_EQ(visit, 1) << count << " by " << grain;
    }
  }
}

TEST_P(Parallel, ManyShortLoopsLoseNothing) {
  std::atomic<int64_t> total = 0;
  for (int round = 0; round < 20000; ++round) {
    parallel_for(4, 1, [&](int64_t begin, int64_t) { total.fetch_add(begin + 1, std::memory_order_relaxed); });
  }
  EXPECT_EQ(total, 20000 * 10);
}

TEST_P(Parallel, AnExceptionIsThrownInTheCallerAndTheNextLoopWorks) {
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(parallel_for(8, 1,
                              [](int64_t begin, int64_t) {
                                if (begin == 5) throw std::runtime_error("five");
                              }),
                 std::runtime_error);
    std::atomic<int> visits = 0;
    parallel_for(8, 1, [&](int64_t, int64_t) { ++visits; });
    EXPECT_EQ(visits, 8);
  }
}

TEST_P(Parallel, ALoopInsideAPieceRunsInItsThread) {
  std::atomic<int> visits = 0;
  parallel_for(6, 1, [&](int64_t, int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(5, 1, [&](int64_t, int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++visits;
    });
  });
  EXPECT_EQ(visits, 30);
}

TEST_P(Parallel, SeveralThreadsOfAProgramMayLoopAtOnce) {
  std::vector<int64_t> sums(4);
  std::vector<std::thread> callers;
  for (int64_t& sum : sums) {
    callers.emplace_back([&sum] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<int64_t> here = 0;
        parallel_for(10, 1, [&](int64_t begin, int64_t) { here += begin; });
        sum += here;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, 500 * 45);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3, 8));

TEST(ParallelThreads, PiecesAreSharedOut) {
  const int before = threads();
  set_threads(3);
  std::atomic<int> arrived = 0;
  // Each piece waits until three threads have one. A single thread would wait forever, so there is a limit.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::atomic<bool> met = false;
  parallel_for(3, 1, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (arrived == 3) met = true;
  });
  EXPECT_TRUE(met);
  set_threads(before);
}

TEST(ParallelThreads, ANegativeCountIsRefused) { EXPECT_ANY_THROW(set_threads(-1)); }

}  // namespace
}  // namespace bochner
