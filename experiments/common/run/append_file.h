// A record that grows: what was appended before a crash stays readable, and a continued run cuts off what lies behind
// its checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace bochner {

class AppendFile {
 public:
  /// Keeps the first `keep` bytes of an existing file.
  AppendFile(const std::filesystem::path& path, int64_t keep);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// All of it or an Error; what was appended before stays.
  void append(std::string_view bytes);
  /// Returns when the bytes are on the disk.
  void sync();

 private:
  [[noreturn]] void fail_to(const char* action) const;

  std::string name_;
  int descriptor_ = -1;
};

}  // namespace bochner
