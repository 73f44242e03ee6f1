// Files: reading, and writing so that a reader sees either the old file or the whole new one, never a part.
//
//   AtomicFile file("runs/lra/checkpoint-last");
//   file.write(bytes);
//   file.commit();          // not reached: the old file stays as it was
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/io/stream.h"
#include "engine/io/temporary.h"

namespace bochner {

/// A failure of the disk although the request was right: it is full or broken, for example.
class DiskError : public Error {
 public:
  using Error::Error;
};

/// Throws the message, as a DiskError if the errno comes from a disk, such as ENOSPC, and otherwise as an Error.
[[noreturn]] void fail_for(int error, const std::string& message);

/// Runs `body`. An exception of std::filesystem becomes such an Error, with the path, the reason and what to do.
void with_named_files(const std::function<void()>& body);

/// Opens a file that programs keep for themselves, with these flags of open(2). An Error if it is a link or has several
/// names, as writing would then change a file elsewhere, or if it is a pipe or the like. -1 with errno if it cannot be
/// opened.
int open_own(const std::filesystem::path& path, int flags);

/// A file open for reading. Errors name it and say why it cannot be read.
class InputFile final : public ByteSource {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile() override;

  const std::string& name() const override { return name_; }
  size_t read(std::span<std::byte> to) override;
  /// The size of a regular file; 0 for pipes and devices.
  int64_t size() const { return size_; }
  /// Fills `to` with the bytes from `offset` on; an Error if the file ends before. Does not move the position of
  /// read().
  void read_at(int64_t offset, std::span<std::byte> to) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

/// All bytes of a file; more than `limit` of them are an Error.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 int64_t limit = std::numeric_limits<int64_t>::max());

/// The same as text.
std::string read_text(const std::filesystem::path& path, int64_t limit = std::numeric_limits<int64_t>::max());

/// How to treat a symbolic link that a new file is to replace: replace its target, as a user who names the link wants,
/// or the link itself, if the program chose the name and somebody else may have put a link there.
enum class Links : unsigned char { followed, replaced };

/// A new file that takes the place of `path` at commit(): it is written under a temporary name (`NAME.tmp-PID-N`) in
/// the same folder, synced, renamed, and the folder is synced. Without commit() the temporary file is removed, as are
/// those that killed processes left of this file. An existing file keeps its permissions. The folder must exist. A full
/// disk is a DiskError.
class AtomicFile final : public ByteSink {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Links links = Links::followed);
  ~AtomicFile() override;

  using ByteSink::write;
  void write(Bytes bytes) override;
  void commit();

 private:
  [[noreturn]] void give_up(const char* action, int error);
  void discard();

  std::string name_;
  std::filesystem::path target_;
  std::optional<Temporary> temporary_;
  int descriptor_ = -1;
  int64_t written_ = 0;
};

/// A file in a folder that nobody reads before it is complete, such as one of hundreds of thousands: it is not synced,
/// and an existing file is lost. A full disk is a DiskError. commit() closes the file.
class NewFile final : public ByteSink {
 public:
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile() override;

  using ByteSink::write;
  void write(Bytes bytes) override;
  void commit();

 private:
  [[noreturn]] void give_up(int error);

  std::string name_;
  int descriptor_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, Bytes bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace bochner
