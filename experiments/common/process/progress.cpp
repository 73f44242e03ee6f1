#include "experiments/common/process/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "experiments/common/process/terminal.h"

namespace bochner {
namespace {

constexpr int kBarWidth = 20;
constexpr int kLeastBarWidth = 4;
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLongestPause = std::chrono::minutes(1);

std::string rate_text(double rate) {
  if (rate >= 100) return fmt::format("{:.0f} step/s", rate);
  if (rate >= 10) return fmt::format("{:.1f} step/s", rate);
  if (rate >= 0.1 || rate <= 0) return fmt::format("{:.2g} step/s", rate);
  return fmt::format("{:.1f} s/step", 1 / rate);
}

double share(double done, double of) { return of <= 0 ? 1 : done / of; }

/// The share that is done, by whichever limit will end it first.
double share(const ProgressState& state) {
  const double steps = share(static_cast<double>(state.step), static_cast<double>(state.steps));
  return state.limit > 0 ? std::max(steps, std::min(1.0, state.seconds / state.limit)) : steps;
}

std::string place(const ProgressState& state) {
  if (state.limit <= 0) return fmt::format("{}/{}", state.step, state.steps);
  return fmt::format("{}, {}/{}", state.step, clock_text(state.seconds), clock_text(state.limit));
}

std::string numbers(const ProgressState& state) {
  std::string text = fmt::format("loss {:.4g}", state.loss);
  if (state.accuracy) text += fmt::format("  acc {:.1f}%", 100 * *state.accuracy);
  if (state.rate) {
    text += "  " + rate_text(*state.rate);
    if (*state.rate > 0 && share(state) < 1) {
      double left = static_cast<double>(state.steps - state.step) / *state.rate;
      if (state.limit > 0) left = std::min(left, state.limit - state.seconds);
      text += fmt::format("  {} left", clock_text(left));
    }
  }
  return text;
}

std::string bar(double share, const std::string& text, int columns) {
  // If both would be too long, the bar is left out.
  const int room = columns > 0 ? columns - 1 - static_cast<int>(text.size()) - 3 : kBarWidth;
  const int width = std::min(room, kBarWidth);
  std::string line = text;
  if (width >= kLeastBarWidth) {
    const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
    std::string drawn(static_cast<size_t>(filled), '=');
    if (filled < width) drawn += '>';
    drawn.resize(static_cast<size_t>(width), ' ');
    line = fmt::format("[{}] {}", drawn, text);
  }
  // A line that wraps could not be redrawn.
  if (columns > 0 && static_cast<int>(line.size()) >= columns) line.resize(static_cast<size_t>(columns - 1));
  return line;
}

}  // namespace

std::string clock_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t days = whole / 86400;
  const int64_t hours = whole / 3600 % 24;
  const int64_t minutes = whole / 60 % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}", days, hours, minutes);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string progress_bar(const ProgressState& state, int columns) {
  return bar(share(state), fmt::format("{}  {}", place(state), numbers(state)), columns);
}

std::string progress_line(const ProgressState& state) {
  return fmt::format("step {} ({:.0f}%)  {}", place(state), std::floor(100 * share(state)), numbers(state));
}

std::string evaluation_bar(const std::string& split, int64_t done, int64_t of, int columns) {
  return bar(share(static_cast<double>(done), static_cast<double>(of)),
             fmt::format("measuring on {} {}/{}", split, done, of), columns);
}

std::string evaluation_line(const std::string& split, int64_t done, int64_t of) {
  return fmt::format("measuring on {} {}/{} ({:.0f}%)", split, done, of,
                     std::floor(100 * share(static_cast<double>(done), static_cast<double>(of))));
}

Progress::Progress(Log& log) : Progress(log, isatty(fileno(log.stream())) != 0, terminal_columns(log.stream(), 80)) {}

Progress::Progress(Log& log, bool terminal, int columns) : log_(log), terminal_(terminal), columns_(columns) {}

Progress::~Progress() { finish(); }

void Progress::update(const ProgressState& state, Clock::time_point now) {
  show([&](bool bar) { return bar ? progress_bar(state, columns_) : progress_line(state); }, share(state) >= 1, now);
}

void Progress::update_evaluation(const std::string& split, int64_t done, int64_t of, Clock::time_point now) {
  show([&](bool bar) { return bar ? evaluation_bar(split, done, of, columns_) : evaluation_line(split, done, of); },
       false, now);
}

void Progress::show(const std::function<std::string(bool)>& text, bool always, Clock::time_point now) {
  if (!log_.shows(LogLevel::info)) return;
  if (!next_) next_ = now + (terminal_ ? Clock::duration::zero() : pause_);
  if (now < *next_ && !always) return;
  if (terminal_) {
    log_.draw(text(true));
    next_ = now + kRedraw;
  } else {
    log_.info("{}", text(false));
    pause_ = std::min<Clock::duration>(2 * pause_, kLongestPause);
    next_ = now + pause_;
  }
}

void Progress::finish() { log_.draw(""); }

}  // namespace bochner
