// Archives: tar, plain or compressed with gzip or Zstandard, and zip, read as they are published, file by file, with
// libarchive.
//
//   ArchiveReader archive("imdb/aclImdb_v1.tar.gz");
//   while (archive.next()) {
//     if (archive.name().ends_with(".txt")) use(archive.name(), archive.read(1 << 20));
//   }
//
// Nothing is written anywhere, so names may be anything. A truncated or damaged archive is an Error that names it, the
// file within it and what is wrong. A zip archive is read from front to back, without its directory at the end.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/stream.h"

namespace bochner {

class LibarchiveInput;

class ArchiveReader {
 public:
  /// What is read is added to the current DataLog (data_log.h), decompressed if it is gzip or Zstandard.
  explicit ArchiveReader(const std::filesystem::path& path);
  /// The same for a source of bytes, which is decompressed if it is gzip or Zstandard.
  explicit ArchiveReader(std::unique_ptr<ByteSource> source);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// Goes to the next regular file, skipping folders, links and the like. False at the end.
  bool next();
  /// The file's path in the archive, in the bytes in which it is stored.
  const std::string& name() const { return name_; }
  /// Its size in bytes, if the archive states it before the contents.
  std::optional<int64_t> size() const { return size_; }
  /// All its bytes; more than `limit` of them are an Error. Memory grows with the bytes actually read.
  std::vector<std::byte> read(int64_t limit);
  /// Writes all its bytes to the sink, piece by piece, and returns their number.
  int64_t copy_to(ByteSink& sink);

 private:
  std::string place() const;
  /// Reads the file's next bytes and returns their number; 0 at its end.
  size_t take(std::span<std::byte> to);
  /// An Error if the file does not have the number of bytes that the archive states.
  void check_size(int64_t bytes) const;

  struct Unpacked {};
  ArchiveReader(std::unique_ptr<ByteSource> source, Unpacked);

  std::unique_ptr<LibarchiveInput> input_;
  std::string name_;
  std::optional<int64_t> size_;
  bool ended_ = false;
};

/// The archive of this name in the folder, if there is one: NAME.tar.gz, .tar.zst, .tar, .zip or .gz, whichever exists
/// first.
std::optional<std::filesystem::path> find_archive(const std::filesystem::path& folder, const std::string& name);
/// The file of this path, or the same with .gz or .zst appended, whichever exists first: open_unpacked() reads each.
std::optional<std::filesystem::path> find_packed(const std::filesystem::path& path);
/// The name of a file without a final .gz or .zst.
std::string unpacked_name(const std::string& name);

}  // namespace bochner
