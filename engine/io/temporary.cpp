#include "engine/io/temporary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace bochner {
namespace {

constexpr const char* kMark = ".tmp-";

/// A path that a signal handler can read: its memory is never freed.
struct Place {
  enum State : int { free, changing, used };
  std::atomic<int> state = free;
  std::array<char, 4096> path{};
};
static_assert(std::atomic<int>::is_always_lock_free);

/// If there are more at a time, only their destructors remove them.
std::array<Place, 64> places;

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether the file is called NAME.tmp-PID-N, with any NAME if `name` is empty.
bool is_temporary(std::string_view file, std::string_view name) {
  const size_t mark = file.rfind(kMark);
  if (mark == std::string_view::npos || mark == 0 || (!name.empty() && file.substr(0, mark) != name)) return false;
  const std::string_view numbers = file.substr(mark + std::strlen(kMark));
  const size_t hyphen = numbers.find('-');
  return hyphen != std::string_view::npos && is_number(numbers.substr(0, hyphen)) &&
         is_number(numbers.substr(hyphen + 1));
}

void remove_if_dead(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  struct stat status {};
  const bool file = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (file && flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  close(descriptor);
}

}  // namespace

Temporary::Temporary(std::filesystem::path path) : path_(std::move(path)) {
  const std::string& name = path_.native();
  for (size_t i = 0; i < places.size() && name.size() < places[i].path.size(); ++i) {
    int state = Place::free;
    if (!places[i].state.compare_exchange_strong(state, Place::changing)) continue;
    std::memcpy(places[i].path.data(), name.c_str(), name.size() + 1);
    places[i].state = Place::used;
    place_ = static_cast<int>(i);
    return;
  }
}

void Temporary::keep() {
  removes_ = false;
  if (place_ >= 0) places[static_cast<size_t>(place_)].state = Place::free;
  place_ = -1;
}

Temporary::~Temporary() {
  std::error_code ignored;
  if (removes_) std::filesystem::remove(path_, ignored);
  keep();
}

Temporaries::~Temporaries() {
  while (!all_.empty()) all_.pop_back();
}

void Temporaries::add(const std::filesystem::path& path) { all_.push_back(std::make_unique<Temporary>(path)); }

std::error_code Temporaries::add_folders(const std::filesystem::path& folder) {
  constexpr int kAttempts = 100;  // another process that has made one of them may remove it again
  std::error_code error;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<std::filesystem::path> missing;  // the innermost first
    for (std::filesystem::path path = folder; !path.empty() && !std::filesystem::exists(path, error);
         path = path.parent_path()) {
      missing.push_back(path);
    }
    error.clear();
    for (; !missing.empty() && !error; missing.pop_back()) {
      if (std::filesystem::create_directory(missing.back(), error)) add(missing.back());
    }
    if (!error && !folder.empty() && !std::filesystem::is_directory(folder, error)) {
      const bool is_file = std::filesystem::exists(folder, error);
      error = std::make_error_code(is_file ? std::errc::not_a_directory : std::errc::no_such_file_or_directory);
    }
    if (error != std::errc::no_such_file_or_directory && error != std::errc::file_exists) break;
  }
  return error;
}

void Temporaries::keep() {
  for (const auto& each : all_) each->keep();
  all_.clear();
}

void remove_temporaries() noexcept {
  for (size_t i = places.size(); i-- > 0;) {
    if (places[i].state != Place::used) continue;
    if (unlink(places[i].path.data()) != 0 && errno != ENOENT) rmdir(places[i].path.data());
  }
}

int open_temporary(const std::filesystem::path& target, std::filesystem::path& path) {
  static std::atomic<int> files = 0;
  for (;;) {
    path = target;
    path += fmt::format("{}{}-{}", kMark, getpid(), files++);
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) return -1;
    // Best effort: some file systems have no locks, and nothing is removed there.
    const bool taken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat status {};
    if (!taken && (fstat(descriptor, &status) != 0 || status.st_nlink > 0)) return descriptor;
    close(descriptor);  // is or was removed as a leftover before it could be locked
  }
}

void remove_leftovers(const std::filesystem::path& folder, const std::string& name) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (is_temporary(entry->path().filename().native(), name)) found.push_back(entry->path());
  }
  for (const std::filesystem::path& path : found) remove_if_dead(path);
}

}  // namespace bochner
