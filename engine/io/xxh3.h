// XXH3-128 (https://github.com/Cyan4973/xxHash), for files that a program writes and reads back itself. It finds
// damage, not malice, at memory speed. `xxhsum -H2` on the command line gives the same digits.
//
//   Xxh3 hash;
//   while (more) hash.update(bytes);
//   const std::string digest = hash.hex();
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/io/bytes.h"

namespace bochner {

/// The hash of bytes that come in pieces of any size.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;

  void update(Bytes bytes);
  /// 32 lower-case hexadecimal digits for the bytes so far; more may follow.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The hash of bytes in memory.
std::string xxh3_of(Bytes bytes);
/// The hash of a file, read in pieces; an Error if it cannot be read.
std::string xxh3_of_file(const std::filesystem::path& path);

}  // namespace bochner
