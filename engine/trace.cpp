#include "engine/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "engine/io/file.h"

namespace bochner::trace {
namespace {

constexpr size_t kLimitPerThread = 2'000'000;  // 64 MB

struct Buffer {
  std::vector<Event> events;
  int64_t dropped = 0;
};

/// Buffers outlive their threads; each is written by one thread only.
struct Recorder {
  std::mutex mutex;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::atomic<int64_t> origin_ns{0};
};

Recorder& recorder() {
  static Recorder instance;
  return instance;
}

Buffer& own_buffer(int& thread) {
  thread_local int number = 0;
  thread_local Buffer* buffer = nullptr;
  if (buffer == nullptr) {
    Recorder& all = recorder();
    const std::lock_guard lock(all.mutex);
    number = static_cast<int>(all.buffers.size());
    buffer = all.buffers.emplace_back(std::make_unique<Buffer>()).get();
  }
  thread = number;
  return *buffer;
}

std::string quoted(const char* text) {
  std::string result = "\"";
  for (; *text != '\0'; ++text) {
    const char c = *text;
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

int64_t dropped() {
  int64_t count = 0;
  for (const auto& buffer : recorder().buffers) count += buffer->dropped;
  return count;
}

}  // namespace

int64_t detail::now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void detail::add(const char* name, int64_t begin_ns) {
  const int64_t length = now_ns() - begin_ns;
  int thread = 0;
  Buffer& buffer = own_buffer(thread);
  if (buffer.events.size() >= kLimitPerThread) {
    ++buffer.dropped;
    return;
  }
  buffer.events.push_back({name, thread, begin_ns - recorder().origin_ns.load(), length});
}

void start() {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  for (const auto& buffer : all.buffers) {
    buffer->events.clear();
    buffer->dropped = 0;
  }
  all.origin_ns = detail::now_ns();
  detail::recording = true;
}

void stop() { detail::recording = false; }

std::vector<Event> events() {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  std::vector<Event> result;
  for (const auto& buffer : all.buffers) result.insert(result.end(), buffer->events.begin(), buffer->events.end());
  // Of two spans with the same begin, the longer one is the outer one.
  std::stable_sort(result.begin(), result.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.thread, a.begin_ns, -a.length_ns) < std::tuple(b.thread, b.begin_ns, -b.length_ns);
  });
  return result;
}

std::string chrome_json() {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  for (const Event& event : events()) {
    text += fmt::format("{}{{\"name\":{},\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}", separator,
                        quoted(event.name), event.thread, static_cast<double>(event.begin_ns) / 1e3,
                        static_cast<double>(event.length_ns) / 1e3);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

static void put(const std::filesystem::path& path, std::ios::openmode mode, const std::string& text) {
  std::ofstream file(path, std::ios::binary | mode);
  file << text;
  file.close();
  const int error = errno;
  if (!file) fail_for(error, fmt::format("trace: cannot write {}: {}", path.string(), std::strerror(error)));
}

void require_writable(const std::filesystem::path& path) { put(path, std::ios::app, ""); }

void write(const std::filesystem::path& path) { put(path, std::ios::trunc, chrome_json()); }

std::vector<Share> shares() {
  // Spans of a thread are nested. A stack of the open ones gives the time that each spends outside the spans within it.
  std::map<std::string, Share> by_name;
  std::vector<Event> open;
  for (const Event& event : events()) {
    while (!open.empty() &&
           (open.back().thread != event.thread || open.back().begin_ns + open.back().length_ns <= event.begin_ns)) {
      open.pop_back();
    }
    if (!open.empty()) by_name[open.back().name].seconds -= static_cast<double>(event.length_ns) / 1e9;
    Share& share = by_name[event.name];
    share.name = event.name;
    share.count += 1;
    share.seconds += static_cast<double>(event.length_ns) / 1e9;
    open.push_back(event);
  }
  double total = 0;
  for (const auto& [name, share] : by_name) total += share.seconds;
  std::vector<Share> result;
  for (const auto& [name, share] : by_name) {
    result.push_back(share);
    result.back().share = total > 0 ? share.seconds / total : 0;
  }
  std::stable_sort(result.begin(), result.end(), [](const Share& a, const Share& b) { return a.seconds > b.seconds; });
  return result;
}

std::string table() {
  std::string text = fmt::format("{:<36} {:>7} {:>12} {:>10} {:>14}\n", "op", "share", "seconds", "count", "us each");
  for (const Share& share : shares()) {
    text += fmt::format("{:<36} {:>6.1f}% {:>12.4f} {:>10} {:>14.2f}\n", share.name, 100 * share.share, share.seconds,
                        share.count, 1e6 * share.seconds / static_cast<double>(share.count));
  }
  if (dropped() > 0) text += fmt::format("{} spans were dropped: there were too many\n", dropped());
  return text;
}

}  // namespace bochner::trace
