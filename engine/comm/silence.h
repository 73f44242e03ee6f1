// Processes that do not answer.
#pragma once

#include <algorithm>
#include <chrono>

#include "engine/error.h"

namespace bochner {

/// Nothing came from other processes for too long; this is not a mistake in the command.
class Silence : public Error {
 public:
  using Error::Error;
};

/// How long this process has waited for others, without the time in which it was itself frozen.
class Waiting {
 public:
  /// Call it often: of the time since the last call, at most one second counts.
  double seconds() {
    const Clock::time_point now = Clock::now();
    waited_ += std::min(std::chrono::duration<double>(now - asked_).count(), 1.0);
    asked_ = now;
    return waited_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point asked_ = Clock::now();
  double waited_ = 0;
};

}  // namespace bochner
