// Ctrl-C and SIGTERM: the first asks the training loop to stop at the next step, the second ends the program at once.
#pragma once

#include <stdexcept>

namespace bochner {

/// Installs the handlers; a file that outgrows its limit becomes an error of write() instead of a signal.
void install_signal_handlers();
/// Was the program asked to stop?
bool interrupted();
/// Asks it to stop, as a signal does; for tests.
void request_interrupt(bool value = true);

/// Thrown by a loop that was asked to stop, after it saved its work; `what()` says how to go on. Exit code 130.
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
