// Several processes that work on one task. A Communicator only transfers bytes between them; its callers (shard_tree.h)
// decide what is added, and in which order, since a library's own sums promise no order.
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
  int rank() const { return rank_; }  ///< the number of this process, from 0
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  /// `process 3 (pid 4711 on node2)` once introduce() has been called; before that, `process 3`.
  std::string who(int rank) const;
  /// Tells all processes where each of them runs. All must call it.
  void introduce();
  /// The number of this process among those on its machine, from 0, once introduce() has been called.
  int rank_on_host() const;

  /// The communicator for GPU memory between the same processes; null if there is none, and transfers go through CPU
  /// memory.
  Communicator* for_cards() const { return for_cards_.get(); }
  void set_for_cards(std::unique_ptr<Communicator> one);

  /// A transfer in progress while its caller does other work. The bytes must stay where they are until it is done. It
  /// needs this process's help to make progress: callers that do other work meanwhile should call test() now and then.
  class Transfer {
   public:
    Transfer() = default;
    virtual ~Transfer() = default;
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    /// Whether it is done; does not wait.
    virtual bool test() = 0;
    /// Returns when it is done. An Error names the processes that sent nothing for timeout() seconds.
    virtual void wait() = 0;
  };

  /// Begins to send and to receive all of these at once. Messages in one channel from one process to another arrive in
  /// the order in which they were begun, and have the sizes that the receiver expects.
  std::unique_ptr<Transfer> begin(const std::vector<Outgoing>& out, const std::vector<Incoming>& in, int channel);
  /// The same in channel 0; returns when all are done.
  void exchange(const std::vector<Outgoing>& out, const std::vector<Incoming>& in) { begin(out, in, 0)->wait(); }
  /// Begins the sum over all processes, available to each of them, in an order that only the library knows. All
  /// processes must begin their sums in the same order.
  virtual std::unique_ptr<Transfer> begin_sum_in_any_order(std::span<float> values) = 0;

  // Built on exchange(); all processes must call them.

  /// The text of the first process.
  std::string broadcast(const std::string& text);
  /// In the first process, the texts of all, by rank; elsewhere empty.
  std::vector<std::string> gather(const std::string& text);
  /// The largest of the processes' numbers.
  int64_t largest(int64_t mine);
  /// Whether it is true in any process.
  bool any(bool mine) { return largest(mine ? 1 : 0) != 0; }
  /// A barrier: returns when all processes have called it.
  void meet() { any(false); }

  /// The bytes that this process has sent so far, including those from GPU to GPU.
  int64_t bytes_sent() const { return bytes_sent_ + (for_cards_ ? for_cards_->bytes_sent() : 0); }
  /// How long a Transfer waits for the others, in seconds, before it throws an Error that names the silent ones.
  void set_timeout(double seconds);
  double timeout() const { return timeout_; }

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual std::unique_ptr<Transfer> transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in,
                                              int channel) = 0;
  /// The Error of a Transfer when these processes have not answered in time.
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
