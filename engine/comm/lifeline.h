// Notices within seconds that another process of this program is gone, whatever this one is doing: MPI would wait for
// it forever.
//
// Each process has a TCP connection to the first one, over which both send a heartbeat every second. If a connection
// ends without a farewell, its process was killed; if it is silent, the process is frozen or its machine is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace bochner {

/// How a process ends with an error.
struct Failure {
  static constexpr int kRunning = 1;  ///< while running: a full disk, the loss of another process, or a bug
  static constexpr int kMistake = 2;  ///< by the caller's mistake

  int code;             ///< one of these, the exit code
  std::string message;  ///< empty if another process reports it
};

class Lifeline {
 public:
  /// What to do when another process is lost, in a thread of the lifeline: report it, call `tell`, which makes the
  /// others end with the same code, and end this process. The message says who is lost, and how.
  using Loss = std::function<void(const Failure& failure, const std::function<void()>& tell)>;

  /// All processes must construct theirs at the same time. A process that is silent for `patience` seconds is lost.
  Lifeline(Communicator& comm, Loss on_loss, double patience = 15);
  /// As after leave().
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// False if some process could not reach the first one by TCP: then no process watches.
  bool watches() const { return watch_ != nullptr; }

  /// This process ends normally. Waits, for some seconds, until the others do so, too.
  void leave();
  /// This process ends with an error, which the first process then reports, ending with the same code. If this is the
  /// first process, or if the first ends with an error of its own, this error is reported nowhere, and the others end
  /// with the first one's code. Waits until the others know: the first process for some seconds; another one ends while
  /// it waits, if the first does.
  void leave_in_error(const Failure& failure);

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace bochner
