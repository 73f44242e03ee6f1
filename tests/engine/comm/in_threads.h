// Processes that are threads of this one.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/error.h"

namespace bochner::test {

/// Where threads leave bytes for each other.
class Post {
 public:
  void send(int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  }
  std::vector<std::byte> receive(int from, int to) {
    std::unique_lock lock(mutex_);
    std::deque<std::vector<std::byte>>& box = boxes_[{from, to}];
    changed_.wait(lock, [&] { return !box.empty(); });
    std::vector<std::byte> bytes = std::move(box.front());
    box.pop_front();
    changed_.notify_all();
    return bytes;
  }
  /// Returns when all that was sent was received: as large messages of MPI, none waits on its way.
  void wait_until_received(int from, int to) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, &box = boxes_[{from, to}]] { return box.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes_;
};

class Thread final : public Communicator {
 public:
  Thread(int rank, int size, Post& post) : Communicator(rank, size), post_(post) {}
  std::string name() const override { return "threads"; }
  void sum_in_any_order(std::span<float>) override { BOCHNER_ASSERT(false); }

 protected:
  void transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in) override {
    for (const Outgoing& one : out) post_.send(rank(), one.to, one.bytes);
    for (const Incoming& one : in) {
      const std::vector<std::byte> bytes = post_.receive(one.from, rank());
      ASSERT_EQ(bytes.size(), one.bytes.size());
      std::memcpy(one.bytes.data(), bytes.data(), bytes.size());
    }
    for (const Outgoing& one : out) post_.wait_until_received(rank(), one.to);
  }

 private:
  Post& post_;
};

/// body(comm) in so many processes.
inline void in_threads(int processes, const std::function<void(Communicator&)>& body) {
  Post post;
  std::vector<std::thread> all;
  for (int r = 0; r < processes; ++r) {
    all.emplace_back([&, r] {
      Thread comm(r, processes, post);
      body(comm);
    });
  }
  for (std::thread& one : all) one.join();
}

}  // namespace bochner::test
