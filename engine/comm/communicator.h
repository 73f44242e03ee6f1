// Several processes that work on one task. A Communicator only carries bytes from one to another; what is added, and in
// which order, is decided by its callers (shard_tree.h), since a library's own sums promise no order.
//
//   alone()              this process and no other
//   mpi_communicator()   the processes that mpirun or srun started (experiments/common/process/mpi.h)
//   nccl_communicator()  the same, for bytes in the memory of cards (nccl.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace bochner {

class Communicator {
 public:
  struct Outgoing {
    int to;
    std::span<const std::byte> bytes;
  };
  struct Incoming {
    int from;
    std::span<std::byte> bytes;
  };

  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// `none`, or the library and its version.
  virtual std::string name() const = 0;
  int rank() const { return rank_; }  ///< this process among all, from 0
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  /// `process 3 (pid 4711 on node2)`, once introduce() was called; before, `process 3`.
  std::string who(int rank) const;
  /// Tells all processes where each of them runs. All must call it.
  void introduce();
  /// The place of this process among those of its machine, from 0, once introduce() was called.
  int rank_on_host() const;

  /// What carries the memory of cards between the same processes; null if nothing does, and it goes through the CPU's.
  Communicator* for_cards() const { return for_cards_.get(); }
  void set_for_cards(std::unique_ptr<Communicator> one);

  /// What is on its way while its caller does other work. The bytes stay where they are until it is done. It needs this
  /// process's help to come on: whoever does other work meanwhile calls test() now and then.
  class Transfer {
   public:
    Transfer() = default;
    virtual ~Transfer() = default;
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    /// Whether it is done; does not wait.
    virtual bool test() = 0;
    /// Returns when it is done. An Error names those from whom nothing came for timeout() seconds.
    virtual void wait() = 0;
  };

  /// Begins to send and to receive all of these at once. Messages of one channel from one process to another arrive in
  /// the order in which they were begun, and have the sizes that the receiver expects.
  std::unique_ptr<Transfer> begin(const std::vector<Outgoing>& out, const std::vector<Incoming>& in, int channel);
  /// The same in channel 0, and returns when all are done.
  void exchange(const std::vector<Outgoing>& out, const std::vector<Incoming>& in) { begin(out, in, 0)->wait(); }
  /// Begins the sum over all processes, in each of them, in an order that only the library knows. All begin their sums
  /// in the same order.
  virtual std::unique_ptr<Transfer> begin_sum_in_any_order(std::span<float> values) = 0;

  // Made of exchange(); all processes must call them.

  /// The text of the first process.
  std::string broadcast(const std::string& text);
  /// In the first process the texts of all, by rank; elsewhere nothing.
  std::vector<std::string> gather(const std::string& text);
  /// The largest number that any process gives.
  int64_t largest(int64_t mine);
  /// Whether it is true in any process.
  bool any(bool mine) { return largest(mine ? 1 : 0) != 0; }
  /// Returns when all processes have come here.
  void meet() { any(false); }

  /// By this process, so far, also from card to card.
  int64_t bytes_sent() const { return bytes_sent_ + (for_cards_ ? for_cards_->bytes_sent() : 0); }
  /// How long a Transfer waits for the others, in seconds, before it throws an Error that names those who are silent.
  void set_timeout(double seconds);
  double timeout() const { return timeout_; }

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual std::unique_ptr<Transfer> transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in,
                                              int channel) = 0;
  /// What a Transfer throws when these have not answered in time.
  [[noreturn]] void fail_silent(const std::vector<int>& ranks) const;
  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }

 private:
  int rank_;
  int size_;
  std::vector<std::string> places_;  ///< `pid 4711 on node2`
  std::unique_ptr<Communicator> for_cards_;
  int64_t bytes_sent_ = 0;
  double timeout_ = 600;
};

/// The only process there is.
Communicator& alone();

}  // namespace bochner
