#include "experiments/common/program/interrupt.h"

#include <csignal>

namespace bochner {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

extern "C" void bochner_on_stop_signal(int signal) {
  stop_requested = 1;
  std::signal(signal, SIG_DFL);  // the next one ends the program
}

}  // namespace

void install_signal_handlers() {
  // SA_RESTART: a write that is under way goes on rather than fail with EINTR.
  struct sigaction action = {};
  action.sa_handler = bochner_on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupted() { return stop_requested != 0; }

void request_interrupt(bool value) { stop_requested = value ? 1 : 0; }

}  // namespace bochner
