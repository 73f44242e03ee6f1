// What slices of sequences request from each other, in any number of processes.
#include "engine/comm/sequence_slices.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "engine/random.h"
#include "engine/sanitizer.h"
#include "tests/engine/comm/in_threads.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::in_threads;
using Way = SequenceSlice::Way;

/// Calls body(slice) for each of `count` slices, with each possible number of processes.
void for_all(int count, int64_t length, const std::function<void(SequenceSlice&, int processes)>& body) {
  for (int processes = 1; processes <= count; ++processes) {
    in_threads(processes, [&](Communicator& comm) {
      const ShardTree tree(count, processes);
      SequenceSlices slices(comm, tree);
      slices.run(length, [&](SequenceSlice& slice) { body(slice, processes); }, {});
    });
  }
}

TEST(SequenceSlices, CoverASequenceOfAnyLength) {
  for (const int64_t length : {1, 2, 5, 64, 131}) {
    for (const int count : {1, 2, 3, 5}) {
      std::vector<int64_t> ends(static_cast<size_t>(count));
      for_all(count, length, [&](SequenceSlice& slice, int processes) {
        const Tensor x = Tensor::arange(length).view({1, length});
        const Tensor own = slice.cut(x);
        EXPECT_EQ(own.size(1), slice.end() - slice.begin());
        EXPECT_LE(std::abs(own.size(1) - length / count), 1);
        for (int64_t i = 0; i < own.size(1); ++i) EXPECT_EQ(own.slice(1, i, i + 1).item(), slice.begin() + i);
        if (slice.is_first()) {
          EXPECT_EQ(slice.begin(), 0);
          EXPECT_GT(slice.end(), 0);
        }
        if (processes == 1) ends[static_cast<size_t>(slice.number())] = slice.end();
        if (processes == 1 && !slice.is_first()) {
          EXPECT_EQ(slice.begin(), ends[static_cast<size_t>(slice.number()) - 1]);
        }
      });
      EXPECT_EQ(ends.back(), length);
    }
  }
}

TEST(SequenceSlices, SumInTheTree) {
  for (const int count : {1, 2, 3, 5, 8}) {
    Generator generator(static_cast<uint64_t>(count));
    std::vector<Tensor> given;
    for (int i = 0; i < count; ++i) given.push_back(normal({2, 7}, generator));
    const std::function<float(int, int, int64_t)> sum = [&](int begin, int end, int64_t at) -> float {
      if (end - begin == 1) return given[static_cast<size_t>(begin)].data<float>()[at];
      return sum(begin, (begin + end) / 2, at) + sum((begin + end) / 2, end, at);
    };
    for_all(count, 100, [&](SequenceSlice& slice, int processes) {
      const Tensor& mine = given[static_cast<size_t>(slice.number())];
      const Tensor total = slice.sum(mine);
      ASSERT_EQ(total.shape(), mine.shape());
      for (int64_t i = 0; i < total.size(); ++i) {
        EXPECT_EQ(total.data<float>()[i], sum(0, count, i)) << count << " in " << processes;
      }
      const Tensor largest = slice.largest(mine);
      for (int64_t i = 0; i < largest.size(); ++i) {
        float expected = given[0].data<float>()[i];
        for (const Tensor& one : given) expected = std::max(expected, one.data<float>()[i]);
        EXPECT_EQ(largest.data<float>()[i], expected);
      }
    });
  }
}

TEST(SequenceSlices, CarryFromOneToTheNextBothWays) {
  for (const int count : {1, 2, 3, 5}) {
    for_all(count, 10, [&](SequenceSlice& slice, int) {
      for (const Way way : {Way::forward, Way::back}) {
        for (const double message : {1.0, 1000.0}) {  // they arrive in order
          const Tensor start = Tensor::full({2}, message, DType::f64);
          const Tensor before = slice.carry_in(way, start);
          const int place = way == Way::forward ? slice.number() : count - 1 - slice.number();
          EXPECT_EQ(before.to_vector<double>(), (std::vector<double>{message + place, message + place}));
          slice.carry_out(way, Tensor::full({2}, message + place + 1, DType::f64));
        }
        slice.sum(Tensor::zeros({1}));
      }
    });
  }
}

/// Calls body(tour, its slices in order) for each way round a ring of `count` slices.
void for_all_tours(int count, const std::function<void(SliceTour, const std::vector<int>&)>& body) {
  for (int first = 0; first < count; ++first) {
    for (int size = 1; size <= count; ++size) {
      std::vector<int> slices;
      for (int i = 0; i < size; ++i) slices.push_back((first + i) % count);
      body({first, slices.back()}, slices);
    }
  }
}

TEST(SequenceSlices, HandRound) {
  for (const int count : {1, 2, 3, 6}) {
    for_all(count, 10, [&](SequenceSlice& slice, int processes) {
      for_all_tours(count, [&](SliceTour tour, const std::vector<int>& slices) {
        const int64_t size = tour.first + 1;  // slices may have other shapes
        const Tensor own = Tensor::full({slice.number() + 1, 2}, slice.number(), DType::f64);
        const Tensor x = slice.hand_round(tour, own, {size, 2});
        const bool comes = std::find(slices.begin(), slices.end(), slice.number()) != slices.end();
        ASSERT_EQ(x.defined(), comes) << tour.first << " to " << tour.last << " in " << processes;
        if (!comes) return;
        EXPECT_EQ(x.to_vector<double>(), std::vector<double>(static_cast<size_t>(2 * size), tour.first));
      });
    });
  }
}

TEST(SequenceSlices, SumRoundInTheOrderOfTheTour) {
  for (const int count : {1, 2, 3, 6}) {
    Generator generator(static_cast<uint64_t>(count));
    std::vector<Tensor> given;
    for (int i = 0; i < count; ++i) given.push_back(normal({2, 7}, generator));
    for_all(count, 10, [&](SequenceSlice& slice, int processes) {
      for_all_tours(count, [&](SliceTour tour, const std::vector<int>& slices) {
        const bool gives = std::find(slices.begin(), slices.end(), slice.number()) != slices.end();
        const Tensor own = given[static_cast<size_t>(slice.number())].clone();
        const Tensor sum = slice.sum_round(tour, gives ? own : Tensor());
        ASSERT_EQ(sum.defined(), slice.number() == tour.first);
        EXPECT_EQ(own.to_vector<float>(), given[static_cast<size_t>(slice.number())].to_vector<float>());
        if (!sum.defined()) return;
        for (int64_t at = 0; at < sum.size(); ++at) {
          const auto value = [&](size_t i) { return given[static_cast<size_t>(slices[i])].data<float>()[at]; };
          float expected = slices.size() == 1 ? value(0) : value(1);
          for (size_t i = 2; i < slices.size(); ++i) expected += value(i);
          if (slices.size() > 1) expected += value(0);
          EXPECT_EQ(sum.data<float>()[at], expected) << tour.first << " to " << tour.last << " in " << processes;
        }
      });
    });
  }
}

TEST(SequenceSlices, OneThatFailsEndsTheOthersOfItsProcess) {
  const ShardTree tree(3, 1);
  SequenceSlices slices(alone(), tree);
  int begun = 0;
  try {
    slices.run(10,
               [&](SequenceSlice& slice) {
                 ++begun;
                 if (slice.number() == 1) fail("no");
                 slice.sum(Tensor::zeros({1}));
                 FAIL();
               },
               {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no");
  }
  EXPECT_EQ(begun, 2);
  slices.run(10, [&](SequenceSlice& slice) { EXPECT_EQ(slice.sum(Tensor::full({}, 1)).item(), 3); }, {});
}

TEST(SequenceSlices, TakeTurnsInOneProcess) {
  const ShardTree tree(3, 1);
  SequenceSlices slices(alone(), tree);
  int whose = -1;
  slices.run(10,
             [&](SequenceSlice& slice) {
               for (int i = 0; i < 3; ++i) {
                 EXPECT_EQ(whose, slice.number());
                 slice.sum(Tensor::zeros({1}));
               }
             },
             {.begin = [&](int number) { whose = number; }, .end = [&](int number) { EXPECT_EQ(whose, number); }});
}

/// The address space of this process, in bytes.
uint64_t address_space() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Each slice's thread has a stack, and together they would exceed what the process may have here.
TEST(SequenceSlices, SayThatThereAreTooFewThreads) {
  if (kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer ends the program where a thread gets no memory";
  const ShardTree tree(4096, 1);
  SequenceSlices slices(alone(), tree);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit small{.rlim_cur = address_space() + (256 << 20), .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const std::string message = test::message_of([&] { slices.run(4096, [](SequenceSlice&) {}, {}); });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_NE(message.find("--sequence-shards: 4096 slices in one process need as many threads"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace bochner
