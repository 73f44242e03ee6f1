// Where the time goes: named spans on each thread, as a Chrome trace (chrome://tracing, ui.perfetto.dev) and as a table
// with each name's share. When off, a span costs one relaxed load.
//
//   trace::start();
//   { const trace::Span span("softmax"); ... }
//   trace::stop();
//   trace::write("out.json");
//   fmt::print("{}", trace::table());
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bochner::trace {

namespace detail {
inline std::atomic<bool> recording{false};
int64_t now_ns();
void add(const char* name, int64_t begin_ns);
}  // namespace detail

/// One finished span.
struct Event {
  const char* name;
  int thread;        ///< 0, 1, ... in the order in which threads first recorded
  int64_t begin_ns;  ///< since start()
  int64_t length_ns;
};

/// The time from here to the end of the scope, under a name that must live as long as the program (a literal).
class Span {
 public:
  explicit Span(const char* name) {
    if (detail::recording.load(std::memory_order_relaxed)) {
      name_ = name;
      begin_ns_ = detail::now_ns();
    }
  }
  ~Span() {
    if (name_ != nullptr) detail::add(name_, begin_ns_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const char* name_ = nullptr;
  int64_t begin_ns_ = 0;
};

/// Forgets what was recorded and starts recording.
void start();
void stop();

/// The finished spans, ordered by thread, then by start. Must not run while spans are recorded.
std::vector<Event> events();
/// The spans as Chrome's trace event format, JSON.
std::string chrome_json();
/// An Error if the file cannot be written. An existing file stays as it is; otherwise an empty one is left.
void require_writable(const std::filesystem::path& path);
/// Writes chrome_json() to a file; an Error if it cannot.
void write(const std::filesystem::path& path);

/// Time by name, largest first: own time (without nested spans), its share of all own time, and the number of spans.
struct Share {
  std::string name;
  int64_t count = 0;
  double seconds = 0;
  double share = 0;
};
std::vector<Share> shares();
/// The same as a text table, with a note if spans were dropped because there were too many.
std::string table();

}  // namespace bochner::trace
