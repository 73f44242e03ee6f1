// A growing record: what was appended before a crash stays readable, and a resumed run removes what was appended after
// its checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/io/xxh3.h"

namespace bochner {

/// The size and hash of a file at some time. A checkpoint holds them, and a resumed run compares them.
struct FileMark {
  int64_t bytes = 0;
  std::string hash{};  ///< XXH3-128 of these bytes

  /// `1234 0123456789abcdef0123456789abcdef`, and back; an Error in the name of `file` if malformed.
  std::string text() const;
  static FileMark parse(const std::string& text, const std::string& file);
};

class AppendFile {
 public:
  /// Truncates an existing file to `keep`. An Error, and the file stays as it is, if it is shorter, if its bytes up to
  /// there have changed, or if it is a link (open_own).
  AppendFile(const std::filesystem::path& path, const FileMark& keep);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends all of it, or throws an Error and leaves the file as it was.
  void append(std::string_view bytes);
  /// Returns when the bytes are on the disk.
  void sync();
  FileMark mark() const { return {bytes_, hash_.hex()}; }

 private:
  [[noreturn]] void fail_to(const char* action) const;

  std::string name_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
  Xxh3 hash_;
};

}  // namespace bochner
