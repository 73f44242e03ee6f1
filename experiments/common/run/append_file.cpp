#include "experiments/common/run/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/io/file.h"

namespace bochner {

AppendFile::AppendFile(const std::filesystem::path& path, int64_t keep) : name_(path.string()) {
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_to("open");
  if (ftruncate(descriptor_, keep) != 0) {
    const int error = errno;
    close(descriptor_);
    errno = error;
    fail_to("cut");
  }
}

AppendFile::~AppendFile() { close(descriptor_); }

void AppendFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to("write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void AppendFile::sync() {
  if (fdatasync(descriptor_) != 0) fail_to("write");
}

void AppendFile::fail_to(const char* action) const {
  const int error = errno;
  fail_for(error, fmt::format("can not {} {}: {}; nothing that was saved is lost, make room and continue with --resume",
                              action, name_, std::strerror(error)));
}

}  // namespace bochner
