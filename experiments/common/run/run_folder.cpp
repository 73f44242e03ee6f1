#include "experiments/common/run/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/error.h"

namespace bochner {
namespace {

std::string holder_of(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t length = pread(descriptor, text.data(), text.size() - 1, 0);
  return length > 0 ? fmt::format("process {}", std::string_view(text.data(), static_cast<size_t>(length)))
                    : "another process";
}

}  // namespace

bool holds_run(const std::filesystem::path& path) { return std::filesystem::exists(path / "config.ini"); }

RunFolder::RunFolder(const std::filesystem::path& path, bool resume) : path_(path) {
  if (resume && !holds_run(path)) fail("--resume: there is no run in {}", path.string());
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("can not make the run folder {}: {}; name another with --out", path.string(), error.message());
  const std::filesystem::path lock = path / ".lock";
  lock_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) {
    fail("can not write in the run folder {}: {}; name another with --out", path.string(), std::strerror(errno));
  }
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const std::string holder = holder_of(lock_);
    close(lock_);
    fail("the run folder {} is in use by {}; wait for it, or name another with --out", path.string(), holder);
  }
  if (!resume && holds_run(path)) {
    close(lock_);
    fail("{} holds a run already; continue it with --resume, or name another folder with --out", path.string());
  }
  const std::string process = fmt::format("{}", getpid());
  // Only a courtesy to whom the lock refuses: a full disk shows where it matters.
  if (ftruncate(lock_, 0) != 0 || pwrite(lock_, process.data(), process.size(), 0) < 0) return;
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) close(lock_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

bool holds_runs(const std::filesystem::path& path) {
  constexpr int kDepth = 3;  // task, attention, seed
  if (holds_run(path)) return true;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(path, error);
  for (const std::filesystem::recursive_directory_iterator end; entry != end; entry.increment(error)) {
    if (error) return false;
    if (entry->is_directory() && holds_run(entry->path())) return true;
    if (entry.depth() + 1 >= kDepth) entry.disable_recursion_pending();
  }
  return false;
}

std::filesystem::path numbered_folder(const std::filesystem::path& parent, const std::string& name, bool latest) {
  const auto numbered = [&](int number) { return parent / (number == 1 ? name : fmt::format("{}-{}", name, number)); };
  int number = 1;
  while (holds_runs(numbered(number))) ++number;
  return numbered(latest && number > 1 ? number - 1 : number);
}

}  // namespace bochner
