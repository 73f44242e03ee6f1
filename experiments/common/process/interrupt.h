// Signals that ask a program to stop: Ctrl-C, SIGHUP (a lost connection), and SIGTERM and SIGUSR1, which Slurm sends
// before a job's time is over, or when the job must make room for another one.
//
// Normally a program prints a message, ends at once and leaves nothing half-written. If there is work to save, a
// StopLater turns the signal into a request, which the training loop sees at its next step or evaluation batch: it
// writes a checkpoint and throws Interrupted. A second Ctrl-C ends the program at once.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "engine/comm/lifeline.h"

namespace bochner {

/// Installs the handlers. SIGINT and SIGHUP stay ignored if the caller ignores them (nohup, `&` in a script). Writing a
/// file beyond its size limit, or to a pipe without a reader, becomes an error of write(): a run must not end because
/// nobody reads its messages.
void install_signal_handlers();

/// Whether the program was asked to stop; it continues only while a StopLater exists.
bool interrupted();
/// Whether a StopLater exists.
bool stops_later();

/// The first signal that asked the program to stop; 0 if none did.
int stop_signal();
/// Asks the program to stop as if it had received this signal, unless one came before: another process received it. 0
/// asks for nothing.
void stop_by(int signal);

/// 130, or kRequeue after SIGTERM or SIGUSR1, whose sender may start the same command again.
int stop_code();
inline constexpr int kRequeue = 75;  // EX_TEMPFAIL

/// Ends the program at once because another process was lost or has failed: prints the line of the failure, if it is
/// not empty, and how to continue, after it has called `last`. May be called from any thread.
[[noreturn]] void leave_because(const Failure& failure, const std::function<void()>& last);

/// From now on, a signal is obeyed without a message: another process prints it.
void keep_quiet();

/// From now on, no signal but SIGKILL ends the program: it ends by itself within seconds, and tells the others first.
void ignore_signals();

/// While one exists, a signal does not end the program; interrupted() says whether one came. If one came and nobody has
/// called that before the last StopLater is destroyed, the program ends there.
class StopLater {
 public:
  StopLater();
  ~StopLater();
  StopLater(const StopLater&) = delete;
  StopLater& operator=(const StopLater&) = delete;
};

/// The message if the program ends at once while this object exists. Without one, it says that nothing was written.
class StopNote {
 public:
  explicit StopNote(const std::string& text);
  ~StopNote();
  StopNote(const StopNote&) = delete;
  StopNote& operator=(const StopNote&) = delete;

 private:
  int before_;
};

/// Thrown by a loop that was asked to stop, after it has saved its work; `what()` says how to continue, or is empty if
/// that was already said. Exit code stop_code(). With several processes, all throw it at the same place (asked_to_stop
/// in processes.h).
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A run that failed through no fault of the caller, for example because of a loss of NaN. Exit code 1.
class RunFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace bochner
