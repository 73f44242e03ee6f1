// SHA-256 (FIPS 180-4), for manifests of data files: `sha256sum` on the command line gives the same digits.
//
//   Sha256 hash;
//   while (more) hash.update(bytes);
//   const std::string digest = hash.hex();
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace bochner {

/// The hash of bytes that come in pieces of any size.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hexadecimal digits for the bytes so far; more may follow.
  std::string hex() const;

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                    0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
  std::array<std::byte, 64> block_{};  ///< the first total_ % 64 bytes wait here
  uint64_t total_ = 0;
};

/// The hash of a file, read in pieces; an Error if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

/// The compression function over whole blocks of 64 bytes, in plain C++ and with the processor's SHA instructions
/// (without them, both are the same). For Sha256 and for tests.
void sha256_blocks_portable(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count);
void sha256_blocks(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count);

}  // namespace bochner
