// Zstandard (RFC 8878) with libarchive. Checksums are verified if the file has them, files of several frames are read
// to their end, and memory stays at the window of the frame, 128 MiB at most.
#pragma once

#include <memory>
#include <string>

#include "engine/io/stream.h"

namespace bochner {

class LibarchiveInput;

/// The decompressed bytes of a Zstandard source. Damaged data, a wrong checksum, a truncated file and bytes after the
/// last frame are Errors that name the file.
class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> packed);
  ~ZstdSource() override;

  size_t read(std::span<std::byte> to) override;
  const std::string& name() const override;

 private:
  [[noreturn]] void refuse() const;

  std::unique_ptr<LibarchiveInput> input_;
  int64_t unpacked_bytes_ = 0;
  bool ended_ = false;
};

/// All decompressed bytes of a Zstandard file; more than `limit` bytes are an Error.
std::vector<std::byte> parse_zstd(Bytes packed, std::string_view file, int64_t limit);

}  // namespace bochner
