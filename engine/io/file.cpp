#include "engine/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace bochner {
namespace {

/// The most bytes to ask of one system call; Linux itself stops short of 2 GiB.
constexpr size_t kPiece = size_t{1} << 30;

std::string reason(int error) {
  std::string text = std::generic_category().message(error);
  switch (error) {
    case ENOENT:
      return text + "; check the path";
    case EACCES:
    case EPERM:
      return text + "; check the permissions of the file and its folder";
    case ENOTDIR:
      return text + "; what stands for a folder in the path is a file: check the path";
    case ENAMETOOLONG:
      return text + "; choose a shorter name";
    case ELOOP:
      return text + "; a symbolic link leads back to itself: remove it";
    case EROFS:
      return text + "; choose a folder that can be written to";
    case ENOSPC:
    case EDQUOT:
      return text + "; free some space or choose another disk";
    case EFBIG:
      return text + "; raise the limit on file sizes (ulimit -f) or choose another disk";
    case EMFILE:
    case ENFILE:
      return text + "; close some files or raise the limit (ulimit -n)";
    default:
      return text;
  }
}

/// Writes some of the bytes and takes them off; below 0 with errno where that fails.
ssize_t write_some(int descriptor, Bytes& bytes) {
  ssize_t count = -1;
  do {
    count = ::write(descriptor, bytes.data(), std::min(bytes.size(), kPiece));
  } while (count < 0 && errno == EINTR);
  if (count > 0) bytes = bytes.subspan(static_cast<size_t>(count));
  return count;
}

}  // namespace

void fail_for(int error, const std::string& message) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case ENXIO:
    case ESTALE:
      throw DiskError(message);
    default:
      throw Error(message);
  }
}

void with_named_files(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::filesystem::filesystem_error& error) {
    std::string names = error.path1().empty() ? "a folder" : error.path1().string();
    if (!error.path2().empty()) names += " and " + error.path2().string();
    const int number = error.code().value();
    fail_for(number, fmt::format("{}: cannot be used: {}", names, reason(number)));
  }
}

int open_own(const std::filesystem::path& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  const int error = errno;
  struct stat status {};
  const bool there = (descriptor < 0 ? lstat(path.c_str(), &status) : fstat(descriptor, &status)) == 0;
  const bool regular = S_ISREG(status.st_mode);
  if (there && (!regular || status.st_nlink > 1)) {
    if (descriptor >= 0) close(descriptor);
    fail("{}: is {}; put a file in its place, or remove it", path.string(),
         regular                   ? "a file with other names too (hard links), which would change with it"
         : S_ISLNK(status.st_mode) ? "a symbolic link, which is not followed here"
                                   : "no regular file");
  }
  errno = error;
  return descriptor;
}

InputFile::InputFile(const std::filesystem::path& path) : name_(path.string()) {
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail("{}: cannot be opened: {}", name_, reason(errno));
  struct stat status {};
  if (fstat(descriptor_, &status) == 0 && !S_ISDIR(status.st_mode)) {
    if (S_ISREG(status.st_mode)) size_ = status.st_size;
    return;
  }
  close(descriptor_);
  fail("{}: is a folder, not a file; name a file in it", name_);
}

InputFile::~InputFile() { close(descriptor_); }

size_t InputFile::read(std::span<std::byte> to) {
  for (;;) {
    const ssize_t count = ::read(descriptor_, to.data(), std::min(to.size(), kPiece));
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) fail("{}: cannot be read: {}", name_, reason(errno));
  }
}

void InputFile::read_at(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), std::min(to.size(), kPiece), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_at(name_, offset, "cannot be read: {}", reason(errno));
    if (count == 0) fail_at(name_, offset, "the file ends here, {} bytes early; is it still being written?", to.size());
    to = to.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

std::vector<std::byte> read_file(const std::filesystem::path& path, int64_t limit) {
  InputFile file(path);
  if (file.size() > limit) {
    fail("{}: holds {} bytes, more than the {} that are allowed here; is it the right file?", file.name(), file.size(),
         limit);
  }
  if (file.size() == 0) return read_all(file, limit);  // a pipe or a device, whose size is unknown
  std::vector<std::byte> bytes(static_cast<size_t>(file.size()));
  file.read_at(0, bytes);
  return bytes;
}

std::string read_text(const std::filesystem::path& path, int64_t limit) {
  const std::vector<std::byte> bytes = read_file(path, limit);
  return std::string(text_of(bytes));
}

AtomicFile::AtomicFile(const std::filesystem::path& path, Links links) : name_(path.string()), target_(path) {
  struct stat old {};
  const int found = links == Links::followed ? stat(target_.c_str(), &old) : lstat(target_.c_str(), &old);
  const bool exists = found == 0 && !S_ISLNK(old.st_mode);
  if (exists && !S_ISREG(old.st_mode)) fail("{}: is not a regular file and cannot be replaced; choose a name", name_);
  if (exists && std::filesystem::is_symlink(target_)) target_ = std::filesystem::canonical(target_);
  if (!target_.has_filename()) fail("{}: names a folder, not a file; add a file name", name_);
  const std::filesystem::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  remove_leftovers(folder, target_.filename().string());
  std::filesystem::path temporary;
  descriptor_ = open_temporary(target_, temporary);
  if (descriptor_ < 0) {
    const int error = errno;
    fail_for(error, fmt::format("{}: cannot be written: {}", name_, reason(error)));
  }
  temporary_.emplace(temporary);
  // Best effort: on file systems without permissions the new file has the default ones.
  if (exists && fchmod(descriptor_, old.st_mode & 07777U) != 0) errno = 0;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  descriptor_ = -1;
  temporary_.reset();
}

void AtomicFile::give_up(const char* action, int error) {
  discard();
  fail_for(error, fmt::format("{}: {} after {} bytes: {}. What stood there before is unchanged", name_, action,
                              written_, reason(error)));
}

void AtomicFile::write(Bytes bytes) {
  BOCHNER_ASSERT(descriptor_ >= 0);
  while (!bytes.empty()) {
    const ssize_t count = write_some(descriptor_, bytes);
    if (count < 0) give_up("writing stopped", errno);
    written_ += count;
  }
}

void AtomicFile::commit() {
  BOCHNER_ASSERT(descriptor_ >= 0);
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) give_up("syncing failed", errno);
  // On network file systems a full disk may show only here.
  const int lock = dup(descriptor_);  // holds the lock until the rename, so that nobody removes the file as a leftover
  const int closed = close(std::exchange(descriptor_, -1));
  const bool placed = closed == 0 && rename(temporary_->path().c_str(), target_.c_str()) == 0;
  const int failure = errno;
  if (lock >= 0) close(lock);
  if (!placed) {
    temporary_.reset();
    give_up(closed != 0 ? "closing failed" : "renaming failed", failure);
  }
  temporary_->keep();
  const std::filesystem::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // the folder can be written but not read, so it cannot be synced
  const int synced = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  if (synced != 0 && error != EINVAL && error != ENOTSUP) {
    fail_for(error, fmt::format("{}: is written, but its folder could not be synced: {}. It may be lost in a power "
                                "failure",
                                name_, reason(error)));
  }
}

NewFile::NewFile(const std::filesystem::path& path)
    : name_(path.string()), descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) give_up(errno);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void NewFile::give_up(int error) { fail_for(error, fmt::format("{}: cannot be written: {}", name_, reason(error))); }

void NewFile::write(Bytes bytes) {
  BOCHNER_ASSERT(descriptor_ >= 0);
  while (!bytes.empty()) {
    if (write_some(descriptor_, bytes) < 0) give_up(errno);
  }
}

void NewFile::commit() {
  if (close(std::exchange(descriptor_, -1)) != 0) give_up(errno);
}

void write_file_atomically(const std::filesystem::path& path, Bytes bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, bytes_of(text));
}

}  // namespace bochner
