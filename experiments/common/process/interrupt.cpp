#include "experiments/common/process/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <exception>

#include "engine/error.h"
#include "engine/io/temporary.h"

namespace bochner {
namespace {

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// State that the handler uses: lock-free, and in memory that is never freed.
std::atomic<int> first_signal = 0;
std::atomic<int> latest_signal = 0;
std::atomic<int64_t> first_at = 0;
std::atomic<int> delays = 0;
std::atomic<bool> leaving = false;
std::atomic<bool> quiet = false;

/// The messages, as a stack.
constexpr int kNotes = 8;
std::array<std::array<char, 1024>, kNotes> notes = {{{"interrupted; nothing was written"}}};
std::atomic<int> current_note = 0;

/// Two SIGINT within this time count as one: timeout(1) sends each signal twice.
constexpr int64_t kOnePress = 250'000'000;

int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void say(const char* text) {
  const char* rest = text;
  for (size_t left = std::strlen(text); left > 0;) {
    const ssize_t written = ::write(STDERR_FILENO, rest, left);
    if (written <= 0) return;
    rest += written;
    left -= static_cast<size_t>(written);
  }
}

void say_line(const char* begin, const char* text) {
  if (quiet) return;
  if (isatty(STDERR_FILENO) != 0) say("\r\033[K");  // over the bar
  say(begin);
  say(text);
  say("\n");
}

int code_of(int signal) { return signal == SIGUSR1 || signal == SIGTERM ? kRequeue : 130; }

void leave_now() {
  if (leaving.exchange(true)) return;
  remove_temporaries();
  say_line("warning: ", notes[static_cast<size_t>(current_note.load())].data());
  _exit(code_of(latest_signal));
}

extern "C" void bochner_on_stop_signal(int signal) {
  const int error = errno;
  const bool first = first_signal == 0;
  if (first) {
    first_at = nanoseconds();
    first_signal = signal;
  }
  latest_signal = signal;
  if (delays == 0) {
    leave_now();
  } else if (first) {
    if (isatty(STDERR_FILENO) != 0) say_line("", "stopping at the next step; Ctrl-C again ends at once");
  } else if (signal == SIGINT && nanoseconds() - first_at > kOnePress) {
    leave_now();
  }
  errno = error;
}

}  // namespace

void install_signal_handlers() {
  // SA_RESTART: a write in progress continues instead of failing with EINTR.
  struct sigaction action = {};
  action.sa_handler = bochner_on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : kStopSignals) sigaddset(&action.sa_mask, signal);
  for (const int signal : kStopSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    const bool ignored = (signal == SIGINT || signal == SIGHUP) && before.sa_handler == SIG_IGN;
    if (!ignored) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return first_signal != 0; }

bool stops_later() { return delays != 0; }

int stop_signal() { return first_signal; }

void stop_by(int signal) {
  int none = 0;
  if (signal != 0) first_signal.compare_exchange_strong(none, signal);
}

int stop_code() { return code_of(first_signal); }

void leave_because(const Failure& failure, const std::function<void()>& last) {
  if (leaving.exchange(true)) {
    for (;;) pause();  // another thread is leaving
  }
  remove_temporaries();
  if (!failure.message.empty()) {
    quiet = false;
    say_line("error: ", failure.message.c_str());
    if (current_note > 0) say_line("", notes[static_cast<size_t>(current_note.load())].data());
  }
  last();
  _exit(failure.code);
}

void keep_quiet() { quiet = true; }

void ignore_signals() {
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);
}

StopLater::StopLater() { ++delays; }

StopLater::~StopLater() {
  if (--delays == 0 && interrupted() && std::uncaught_exceptions() == 0) leave_now();
}

StopNote::StopNote(const std::string& text) : before_(current_note) {
  BOCHNER_ASSERT(before_ + 1 < kNotes);
  auto& place = notes[static_cast<size_t>(before_) + 1];
  place.fill('\0');
  std::memcpy(place.data(), text.data(), std::min(text.size(), place.size() - 1));
  current_note = before_ + 1;
}

StopNote::~StopNote() { current_note = before_; }

}  // namespace bochner
