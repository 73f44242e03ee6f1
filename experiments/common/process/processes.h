// The processes of one call of a program, which end together. The first one speaks for all: the others print nothing,
// and it reports their failures.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/lifeline.h"
#include "experiments/common/process/log.h"

namespace bochner {

class Processes {
 public:
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Calls `body` with all processes that `wanted` (--processes) finds. Exceptions are rethrown; the caller reports
  /// them in the first process, and the others end with this object. The log of the others is silent from then on.
  void run(const std::string& wanted, Log& log, const std::function<void(Communicator&)>& body);

 private:
  void begin(const std::string& wanted, Log& log);
  void fail_with(const Failure& failure);
  void leave_in_error(const Failure& failure);

  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Lifeline> lifeline_;
  std::optional<Failure> failure_;  ///< of the first process; the others are told when this is destroyed
};

/// How the program ends because of the exception. To be called where it is caught.
Failure failure_caught();

/// The command that continues the work of these processes, for messages.
std::string command_to_go_on(const std::string& program, const std::vector<std::string>& arguments,
                             const Communicator& comm);

inline constexpr char kOnlyShown = '\x1f';

/// Requires that all processes have the same `text`, which consists of lines of `what`: an Error in the first process
/// shows the lines that differ in another one, and both hashes. Text after kOnlyShown in a line, such as the path of a
/// file, is not compared. All must call it.
void require_alike(Communicator& comm, const std::string& what, const std::string& text);

/// The same for the arguments that decide what the processes communicate next, before they do so.
void require_same_course(Communicator& comm, const std::vector<std::string>& arguments);

/// Whether a signal asked any of the processes to stop; if so, all of them have been asked. All must call it, each with
/// a StopLater.
bool asked_to_stop(Communicator& comm);

}  // namespace bochner
