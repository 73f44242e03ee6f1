#include "engine/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/error.h"
#include "engine/io/file.h"

namespace bochner {

FileLock::FileLock(const std::filesystem::path& path, const std::string& what, const std::string& advice) {
  for (;;) {
    descriptor_ = open_own(path, O_RDWR | O_CREAT);
    if (descriptor_ < 0) fail("{}: {}; {}", what, std::strerror(errno), advice);
    const int error = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == EWOULDBLOCK) return;
    if (error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP) {
      warning_ = fmt::format("{}: cannot be locked ({}), so nothing keeps two processes apart here; start only one",
                             path.string(), std::strerror(error));
    } else if (error != 0) {
      close(descriptor_);
      fail("{}: {} cannot be locked: {}; {}", what, path.string(), std::strerror(error), advice);
    }
    struct stat mine {};
    struct stat there {};
    const bool same = fstat(descriptor_, &mine) == 0 && lstat(path.c_str(), &there) == 0 &&
                      mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
    if (same) break;
    close(descriptor_);  // the previous holder removed the file
  }
  held_ = true;
  const std::string process = fmt::format("{}", getpid());
  // Only helps the message of those whom the lock refuses, so a full disk is no error here.
  if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, process.data(), process.size(), 0) < 0) return;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

FileLock::FileLock(FileLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      held_(std::exchange(other.held_, false)),
      warning_(std::move(other.warning_)) {}

std::string FileLock::holder() const {
  std::array<char, 32> text{};
  const ssize_t length = pread(descriptor_, text.data(), text.size() - 1, 0);
  return length > 0 ? fmt::format("process {}", std::string_view(text.data(), static_cast<size_t>(length)))
                    : "another process";
}

}  // namespace bochner
