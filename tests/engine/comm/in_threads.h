// Processes that are threads of this process.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/error.h"

namespace bochner::test {

/// Where threads leave bytes for one another.
class Post {
 public:
  struct Way {
    int from;
    int to;
    int channel;
    auto operator<=>(const Way&) const = default;
  };
  /// Returns the number of the letter among those on its way, from 1.
  int send(const Way& way, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    Box& box = boxes_[way];
    box.letters.emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
    return ++box.sent;
  }
  bool has(const Way& way) {
    const std::lock_guard lock(mutex_);
    return !boxes_[way].letters.empty();
  }
  std::vector<std::byte> receive(const Way& way) {
    std::unique_lock lock(mutex_);
    Box& box = boxes_[way];
    changed_.wait(lock, [&] { return !box.letters.empty(); });
    std::vector<std::byte> bytes = std::move(box.letters.front());
    box.letters.pop_front();
    changed_.notify_all();
    return bytes;
  }
  /// Returns when this letter has been received: like large messages of MPI, none waits on its way.
  void wait_until_received(const Way& way, int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, &box = boxes_[way]] { return box.sent - std::ssize(box.letters) >= number; });
  }

 private:
  struct Box {
    std::deque<std::vector<std::byte>> letters;
    int sent = 0;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Way, Box> boxes_;
};

class Thread final : public Communicator {
 public:
  Thread(int rank, int size, Post& post) : Communicator(rank, size), post_(post) {}
  std::string name() const override { return "threads"; }
  std::unique_ptr<Transfer> begin_sum_in_any_order(std::span<float>) override { fail("threads have no sum"); }

 protected:
  std::unique_ptr<Transfer> transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in,
                                      int channel) override {
    std::vector<Letters::Sent> sent;
    for (const Outgoing& one : out) {
      const Post::Way way{rank(), one.to, channel};
      sent.push_back({way, post_.send(way, one.bytes)});
    }
    return std::make_unique<Letters>(*this, std::move(sent), in, channel);
  }

 private:
  class Letters final : public Transfer {
   public:
    struct Sent {
      Post::Way way;
      int number;
    };
    Letters(Thread& comm, std::vector<Sent> sent, std::vector<Incoming> in, int channel)
        : comm_(comm), sent_(std::move(sent)), in_(std::move(in)), channel_(channel) {}
    bool test() override {
      while (received_ < in_.size() && comm_.post_.has(way_of(in_[received_]))) receive();
      return received_ == in_.size();
    }
    void wait() override {
      while (received_ < in_.size()) receive();
      for (const Sent& one : sent_) comm_.post_.wait_until_received(one.way, one.number);
    }

   private:
    Post::Way way_of(const Incoming& one) const { return {one.from, comm_.rank(), channel_}; }
    void receive() {
      const Incoming& one = in_[received_++];
      const std::vector<std::byte> bytes = comm_.post_.receive(way_of(one));
      ASSERT_EQ(bytes.size(), one.bytes.size());
      std::memcpy(one.bytes.data(), bytes.data(), bytes.size());
    }

    Thread& comm_;
    std::vector<Sent> sent_;
    std::vector<Incoming> in_;
    int channel_;
    size_t received_ = 0;
  };

  Post& post_;
};

/// Calls body(comm) in the given number of processes.
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
