// gzip (RFC 1952) by zlib. Checksums are verified, files of several members are read to their end, and memory stays at
// about 100 KiB, however large the unpacked file is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/io/stream.h"

namespace bochner {

/// The decompressed bytes of a gzip source. A wrong magic number, damaged data, a wrong checksum or length, a truncated
/// file and bytes after the last member (other than zeros) are Errors with the offset in the compressed file.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> packed);
  ~GzipSource() override;

  size_t read(std::span<std::byte> to) override;
  const std::string& name() const override { return packed_->name(); }

 private:
  struct State;

  bool refill();
  [[noreturn]] void refuse(const char* message) const;
  bool begin_member();

  std::unique_ptr<ByteSource> packed_;
  std::unique_ptr<State> state_;
};

/// Compresses what is written into one gzip member without name or time, so that equal bytes give equal files.
class GzipSink final : public ByteSink {
 public:
  /// `level` 1 (fast) to 9 (small). `packed` must outlive this.
  explicit GzipSink(ByteSink& packed, int level = 6);
  ~GzipSink() override;

  using ByteSink::write;
  void write(Bytes bytes) override;
  /// Ends the member; nothing may be written after it. Without it, the compressed bytes are truncated.
  void finish();

 private:
  struct State;

  void drive(int flush);

  ByteSink& packed_;
  std::unique_ptr<State> state_;
};

/// The decompressed bytes of a whole gzip file; more than `limit` bytes are an Error.
std::vector<std::byte> parse_gzip(Bytes packed, std::string_view file, int64_t limit);
std::vector<std::byte> format_gzip(Bytes bytes, int level = 6);

}  // namespace bochner
