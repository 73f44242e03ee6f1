// A record that grows: what was appended before a crash stays readable, and a continued run cuts off what lies behind
// its checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/io/xxh3.h"

namespace bochner {

/// How far a file had grown, and what was in it: a checkpoint holds it, and what continues from there compares.
struct FileMark {
  int64_t bytes = 0;
  std::string hash{};  ///< XXH3-128 of these bytes

  /// `1234 0123456789abcdef0123456789abcdef`, and back; an Error in the name of `file`.
  std::string text() const;
  static FileMark parse(const std::string& text, const std::string& file);
};

class AppendFile {
 public:
  /// Cuts an existing file off behind `keep`. An Error, and nothing touched, where it is shorter or where what it holds
  /// up to there is not what was written.
  AppendFile(const std::filesystem::path& path, const FileMark& keep);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// All of it or an Error; what was appended before stays.
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
