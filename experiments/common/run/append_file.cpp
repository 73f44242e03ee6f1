#include "experiments/common/run/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "engine/io/file.h"

namespace bochner {

namespace {

/// Hashes the first bytes of a file; an Error if they do not match the mark.
void hash_through(const std::filesystem::path& path, const FileMark& mark, Xxh3& hash) {
  const auto refuse = [&](const std::string& what) {
    fail("{}: {}; restore it from a copy, or remove it to continue with a record that begins here", path.string(),
         what);
  };
  InputFile file(path);
  if (file.size() < mark.bytes) {
    refuse(fmt::format("has {} bytes, but had {} at the checkpoint; it was cut", file.size(), mark.bytes));
  }
  std::vector<std::byte> piece(static_cast<size_t>(std::min(mark.bytes, int64_t{1} << 20)));
  for (int64_t at = 0; at < mark.bytes;) {
    const std::span<std::byte> part =
        std::span(piece).first(static_cast<size_t>(std::min(mark.bytes - at, std::ssize(piece))));
    file.read_at(at, part);
    hash.update(part);
    at += std::ssize(part);
  }
  if (hash.hex() != mark.hash) {
    refuse(fmt::format("its first {} bytes have the hash {}, but had {} at the checkpoint; it was changed", mark.bytes,
                       hash.hex(), mark.hash));
  }
}

}  // namespace

std::string FileMark::text() const { return fmt::format("{} {}", bytes, hash); }

FileMark FileMark::parse(const std::string& text, const std::string& file) {
  FileMark mark;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, mark.bytes);
  if (error != std::errc() || stop == end || *stop != ' ' || mark.bytes < 0) {
    fail("{}: the length and hash of a file are damaged: '{}'", file, text);
  }
  mark.hash.assign(stop + 1, end);
  return mark;
}

AppendFile::AppendFile(const std::filesystem::path& path, const FileMark& keep)
    : name_(path.string()), bytes_(keep.bytes) {
  if (keep.bytes > 0) hash_through(path, keep, hash_);
  descriptor_ = open_own(path, O_WRONLY | O_CREAT | O_APPEND);
  if (descriptor_ < 0) fail_to("open");
  if (ftruncate(descriptor_, keep.bytes) != 0) {
    const int error = errno;
    close(descriptor_);
    errno = error;
    fail_to("cut");
  }
}

AppendFile::~AppendFile() { close(descriptor_); }

void AppendFile::append(std::string_view bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // If this fails, too, the extra bytes stay until a resumed run truncates them.
      [[maybe_unused]] const int cut = ftruncate(descriptor_, bytes_);
      errno = error;
      fail_to("write");
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  hash_.update(bytes_of(bytes));
  bytes_ += std::ssize(bytes);
}

void AppendFile::sync() {
  if (fdatasync(descriptor_) != 0) fail_to("write");
}

void AppendFile::fail_to(const char* action) const {
  const int error = errno;
  fail_for(error, fmt::format("cannot {} {}: {}; make room, nothing that was saved is lost", action, name_,
                              std::strerror(error)));
}

}  // namespace bochner
