// Notices within seconds that another process of this program is gone, whatever this one is doing: MPI would wait for
// it without end.
//
// Each process has a TCP connection to the first one, over which both send a sign of life every second. A connection
// that ends without a farewell is that of a process that was killed; one that is silent is that of a process that is
// frozen, or whose machine is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace bochner {

/// How a process ends by an error.
struct Failure {
  static constexpr int kRunning = 1;  ///< while it ran, by a full disk or the loss of another process, or by a bug
  static constexpr int kMistake = 2;  ///< by the caller's mistake

  int code;             ///< one of these, the exit code
  std::string message;  ///< empty where another process reports it
};

class Lifeline {
 public:
  /// What to do when another process is lost, in a thread of the lifeline: report it, call `tell`, which makes the
  /// others end with the same code, and end this process. The message says who is lost, and how.
  using Loss = std::function<void(const Failure& failure, const std::function<void()>& tell)>;

  /// All processes must make theirs at the same time. A process that is silent for `patience` seconds is lost.
  Lifeline(Communicator& comm, Loss on_loss, double patience = 15);
  /// As after leave().
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// False if some process could not reach the first one by TCP: then nobody watches.
  bool watches() const { return watch_ != nullptr; }

  /// This process ends as it should. Waits, for some seconds, until the others do so, too.
  void leave();
  /// This process ends by an error, which the first process then reports, and ends with the same code. If it is the
  /// first, or the first ends by an error of its own, it is reported nowhere, and the others end with the first one's
  /// code. Waits until they know: the first for some seconds; another one ends while it waits, if the first does.
  void leave_in_error(const Failure& failure);

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace bochner
