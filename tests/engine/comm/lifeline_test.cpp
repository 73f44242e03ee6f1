// How processes end together; they are threads here. What happens to those that are killed or frozen is in
// tests/experiments/processes/losses_test.cpp, as it needs real ones.
#include "engine/comm/lifeline.h"

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/engine/comm/in_threads.h"

namespace bochner {
namespace {

constexpr int kProcesses = 4;

/// What each process was told of a loss; nothing if it was told of none.
class Told {
 public:
  Lifeline::Loss by(int rank) {
    return [&one = all_.at(static_cast<size_t>(rank))](const Failure& failure, const std::function<void()>& tell) {
      tell();
      one.set_value(failure);
    };
  }
  /// Waits for it.
  Failure of(int rank) { return all_.at(static_cast<size_t>(rank)).get_future().get(); }
  bool none(int rank) {
    return all_.at(static_cast<size_t>(rank)).get_future().wait_for(std::chrono::seconds(0)) ==
           std::future_status::timeout;
  }

 private:
  std::array<std::promise<Failure>, kProcesses> all_;
};

TEST(Lifeline, LeavingTogetherIsNoLoss) {
  Told told;
  test::in_threads(kProcesses, [&](Communicator& comm) {
    Lifeline lifeline(comm, told.by(comm.rank()));
    ASSERT_TRUE(lifeline.watches());
    lifeline.leave();
  });
  for (int rank = 0; rank < kProcesses; ++rank) EXPECT_TRUE(told.none(rank)) << rank;
}

TEST(Lifeline, TheFirstReportsTheErrorOfAnotherAndAllEndWithItsCode) {
  Told told;
  test::in_threads(kProcesses, [&](Communicator& comm) {
    Lifeline lifeline(comm, told.by(comm.rank()));
    ASSERT_TRUE(lifeline.watches());
    if (comm.rank() == 2) return lifeline.leave_in_error({Failure::kMistake, "no such option"});
    const Failure failure = told.of(comm.rank());
    EXPECT_EQ(failure.code, Failure::kMistake) << comm.rank();
    EXPECT_EQ(failure.message, comm.is_first() ? "process 2: no such option" : "") << comm.rank();
    lifeline.leave();
  });
}

TEST(Lifeline, AnErrorOfTheFirstIsItsOwnToReport) {
  Told told;
  std::atomic<bool> begun = false;
  test::in_threads(kProcesses, [&](Communicator& comm) {
    Lifeline lifeline(comm, told.by(comm.rank()));
    ASSERT_TRUE(lifeline.watches());
    // All come to the same error, as if each had read the same wrong file, the first not much later than the others.
    if (comm.is_first()) begun = true;
    while (!begun) std::this_thread::yield();
    if (comm.rank() != 3) return lifeline.leave_in_error({Failure::kRunning, fmt::format("error {}", comm.rank())});
    const Failure failure = told.of(comm.rank());
    EXPECT_EQ(failure.code, Failure::kRunning);
    EXPECT_EQ(failure.message, "");
    lifeline.leave();
  });
  EXPECT_TRUE(told.none(0)) << "it reports its own, and no other";
}

}  // namespace
}  // namespace bochner
