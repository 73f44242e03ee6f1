// Seconds since a moment, by a monotonic clock.
//
//   const Stopwatch watch;
//   step();
//   fmt::print("{:.2f} s\n", watch.seconds());
#pragma once

#include <chrono>

namespace bochner {

class Stopwatch {
 public:
  /// Since it was made.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begin_ = Clock::now();
};

}  // namespace bochner
