// Common to the readers that use libarchive (archive.h, zstd.h): runs libarchive on a ByteSource.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <string>

#include "engine/io/stream.h"

struct archive;

namespace bochner {

class LibarchiveInput {
 public:
  explicit LibarchiveInput(std::unique_ptr<ByteSource> source);
  ~LibarchiveInput();
  LibarchiveInput(const LibarchiveInput&) = delete;
  LibarchiveInput& operator=(const LibarchiveInput&) = delete;

  /// Enable formats and filters on this before open().
  archive* handle() const { return archive_; }
  const std::string& name() const { return source_->name(); }
  void open();
  /// Reads the rest of the source, so that a log of it sees all bytes (data_log.h).
  void drain();
  /// The number of zeros at the end of the bytes read so far.
  int64_t zeros_at_end() const { return zeros_; }
  /// Throws what the source threw, with `place` appended; otherwise an Error with libarchive's message, or with
  /// `otherwise` if there is none.
  [[noreturn]] void refuse(const std::string& place, const char* otherwise);

 private:
  static long take(archive*, void* self, const void** piece);  // NOLINT(google-runtime-int): libarchive's la_ssize_t
  size_t take_piece();

  std::unique_ptr<ByteSource> source_;
  archive* archive_;
  std::array<std::byte, size_t{1} << 16> piece_{};
  std::exception_ptr failure_;  ///< of the source: no exception may pass through C
  int64_t zeros_ = 0;
};

}  // namespace bochner
