#include "experiments/common/process/log.h"

#include "engine/error.h"

namespace bochner {

LogLevel log_level_named(std::string_view name) {
  if (name == "error") return LogLevel::error;
  if (name == "warning") return LogLevel::warning;
  if (name == "info") return LogLevel::info;
  if (name == "debug") return LogLevel::debug;
  fail("log-level: '{}' is none of error, warning, info, debug", name);
}

void Log::line(LogLevel level, const std::string& text) {
  if (!shows(level)) return;
  draw("");
  const char* const mark = level == LogLevel::warning ? "warning: " : level == LogLevel::error ? "error: " : "";
  std::fputs((mark + text + "\n").c_str(), stream_);
  std::fflush(stream_);
}

void Log::draw(const std::string& text) {
  if (text.empty() && !drawn_) return;
  std::fputs(("\r\033[K" + text).c_str(), stream_);
  std::fflush(stream_);
  drawn_ = !text.empty();
}

}  // namespace bochner
