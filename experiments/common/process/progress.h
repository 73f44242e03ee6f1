// Progress of training: if stderr is a terminal, a bar with loss, accuracy, steps per second and the time left, shorter
// if the terminal is narrow; otherwise a plain line from time to time.
//
//   [==========>         ] 2500/5000  loss 0.4213  acc 81.2%  12.3 step/s  3:23 left
//   step 2500/5000 (50%)  loss 0.4213  acc 81.2%  12.3 step/s  3:23 left
//   step 2500, 1:00/2:00 (50%)  loss 0.4213  acc 81.2%  41.7 step/s  1:00 left     where time ends the training
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "experiments/common/process/log.h"

namespace bochner {

/// The contents of a progress line.
struct ProgressState {
  int64_t step = 0;
  int64_t steps = 0;
  double seconds = 0;  ///< of training so far
  double limit = 0;    ///< seconds at which it ends, if before all steps; 0: none
  double loss = 0;
  std::optional<double> accuracy{};  ///< in [0, 1]; for tasks that have one
  std::optional<double> rate{};      ///< steps per second, when known
};

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// Draws a bar if the log's stream is a terminal.
  explicit Progress(Log& log);
  Progress(Log& log, bool terminal, int columns);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Call it after each step. It draws when it is time: a bar ten times a second; a plain line after 1, 2, 4, ... 60
  /// seconds, then every minute; either also at the last step.
  void update(const ProgressState& state, Clock::time_point now = Clock::now());
  /// The same during the evaluation of a split, after `done` examples.
  void update_evaluation(const std::string& split, int64_t done, int64_t of, Clock::time_point now = Clock::now());
  /// Clears the bar.
  void finish();

 private:
  /// `text` makes what is shown, on a terminal or not.
  void show(const std::function<std::string(bool)>& text, bool always, Clock::time_point now);

  Log& log_;
  bool terminal_;
  int columns_;
  std::optional<Clock::time_point> next_;
  Clock::duration pause_ = std::chrono::seconds(1);
};

/// The two forms above.
std::string progress_bar(const ProgressState& state, int columns);
std::string progress_line(const ProgressState& state);
/// `[====>   ] measuring on valid 640/2000`, and `measuring on valid 640/2000 (32%)`.
std::string evaluation_bar(const std::string& split, int64_t done, int64_t of, int columns);
std::string evaluation_line(const std::string& split, int64_t done, int64_t of);
/// `0:07`, `12:34`, `1:02:03`, `3d 04:05`.
std::string clock_text(double seconds);

}  // namespace bochner
