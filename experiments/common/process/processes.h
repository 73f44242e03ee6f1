// The processes of one call of a program, and how they end: together. The first one speaks for all; the others print
// nothing, and what they fail by it reports.
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

  /// `body`, with all processes that `wanted` (--processes) finds. What it throws is thrown again; the caller reports
  /// it in the first process, and the others end with this object. The log of the others is silent from then on.
  void run(const std::string& wanted, Log& log, const std::function<void(Communicator&)>& body);

 private:
  void begin(const std::string& wanted, Log& log);
  void fail_with(const Failure& failure);
  void leave_in_error(const Failure& failure);

  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Lifeline> lifeline_;
  std::optional<Failure> failure_;  ///< of the first process; the others are told when this is destroyed
};

/// How the program ends by what was thrown. To be called where it is caught.
Failure failure_caught();

/// The command that continues what these processes do, for messages.
std::string command_to_go_on(const std::string& program, const std::vector<std::string>& arguments,
                             const Communicator& comm);

inline constexpr char kOnlyShown = '\x1f';

/// Requires that all processes have the same `text`, the lines of which `what` consists: an Error in the first process
/// shows the lines in which another one differs, and both hashes. What follows kOnlyShown in a line, such as where a
/// file lies, is not compared. All must call it.
void require_alike(Communicator& comm, const std::string& what, const std::string& text);

/// The same of the arguments that decide what the processes tell one another next, before they do.
void require_same_course(Communicator& comm, const std::vector<std::string>& arguments);

/// Whether a signal asked any of the processes to stop; then it has asked all of them. All must call it, with a
/// StopLater each.
bool asked_to_stop(Communicator& comm);

}  // namespace bochner
