// Streams of bytes: sources to read from piece by piece, and sinks to write to. Files, memory, gzip (gzip.h) and
// Zstandard (zstd.h) have the same interface, so each format is implemented once.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/bytes.h"

namespace bochner {

/// Where bytes come from.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Puts the next bytes into `to` and returns their number: at least one; 0 only at the end (or if `to` is empty).
  virtual size_t read(std::span<std::byte> to) = 0;
  /// The name for messages.
  virtual const std::string& name() const = 0;
};

/// Bytes in memory, which must outlive the source.
class MemorySource final : public ByteSource {
 public:
  MemorySource(Bytes bytes, std::string_view name) : bytes_(bytes), name_(name) {}
  size_t read(std::span<std::byte> to) override;
  const std::string& name() const override { return name_; }

 private:
  Bytes bytes_;
  std::string name_;
};

/// Where bytes go.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  ByteSink() = default;
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;

  virtual void write(Bytes bytes) = 0;
  void write(std::string_view text) { write(bytes_of(text)); }
};

/// Collects what is written.
class MemorySink final : public ByteSink {
 public:
  using ByteSink::write;
  void write(Bytes bytes) override { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// `source` itself, or its decompressed bytes if it begins like a gzip or Zstandard file.
std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source);
/// Opens a file at its start and decompresses gzip and Zstandard, whatever the name. What is read is added to the
/// current DataLog (data_log.h).
std::unique_ptr<ByteSource> open_unpacked(const std::filesystem::path& path);
/// The next `count` bytes; fewer only at the end. Memory grows with the bytes actually read, not with `count`.
std::vector<std::byte> read_up_to(ByteSource& source, int64_t count);
/// All remaining bytes; more than `limit` of them are an Error.
std::vector<std::byte> read_all(ByteSource& source, int64_t limit);

}  // namespace bochner
