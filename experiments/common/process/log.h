// Messages to the user: one line each, on stderr, up to a level that --log-level and --quiet set.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace bochner {

enum class LogLevel : unsigned char { error, warning, info, debug };

/// `error`, `warning`, `info` or `debug`.
LogLevel log_level_named(std::string_view name);

/// Writes the lines. Owned by the run; a progress bar below them is cleared before each line.
class Log {
 public:
  explicit Log(LogLevel level = LogLevel::info, std::FILE* stream = stderr) : level_(level), stream_(stream) {}

  LogLevel level() const { return level_; }
  std::FILE* stream() const { return stream_; }
  bool shows(LogLevel level) const { return level <= level_; }

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) {
    line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
  }
  void line(LogLevel level, const std::string& text);

  /// Draws `text` in the last line of a terminal, replacing what was there; empty text removes it.
  void draw(const std::string& text);

 private:
  LogLevel level_;
  std::FILE* stream_;
  bool drawn_ = false;
};

}  // namespace bochner
