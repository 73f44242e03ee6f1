// Signals that ask a program to stop: Ctrl-C, SIGTERM, SIGHUP (a lost connection) and SIGUSR1 (from Slurm, before the
// time of a job is over).
//
// Normally a program prints a message, ends at once and leaves nothing half-written. If there is work to save, a
// StopLater turns the signal into a request, which the training loop sees at the next step or batch of an evaluation:
// it writes a checkpoint and throws Interrupted. A second Ctrl-C then ends the program at once.
#pragma once

#include <stdexcept>
#include <string>

namespace bochner {

/// Installs the handlers, of which SIGINT and SIGHUP stay ignored where the caller ignores them (nohup, `&` in a
/// script). A file that outgrows its limit becomes an error of write(), and so does a pipe without a reader: a run must
/// not end because nobody reads what it says.
void install_signal_handlers();

/// The program was asked to stop, and goes on only under a StopLater.
bool interrupted();

/// 130, and after SIGUSR1 kRequeue: whoever sent it may start the same command again.
int stop_code();
inline constexpr int kRequeue = 75;  // EX_TEMPFAIL

/// While one lives, the program does not end at a signal; where one came, interrupted() tells. Where nobody asked by
/// the end of the last one, the program ends there.
class StopLater {
 public:
  StopLater();
  ~StopLater();
  StopLater(const StopLater&) = delete;
  StopLater& operator=(const StopLater&) = delete;
};

/// What the program says when it ends at once, while this object lives; without one that nothing was written.
class StopNote {
 public:
  explicit StopNote(const std::string& text);
  ~StopNote();
  StopNote(const StopNote&) = delete;
  StopNote& operator=(const StopNote&) = delete;

 private:
  int before_;
};

/// Thrown by a loop that was asked to stop, after it saved its work; `what()` says how to go on. Exit code stop_code().
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A run that failed on its way through no mistake of the caller, such as a loss that is NaN. Exit code 1.
class RunFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace bochner
