// Helpers of the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/error.h"
#include "engine/io/file.h"
#include "tests/message_of.h"

namespace bochner::testing_ {

using test::message_of;

/// An empty folder of the running test, removed with this object.
class Folder {
 public:
  Folder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            fmt::format("bochner_{}_{}_{}", info->test_suite_name(), info->name(), getpid());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  /// Writes a file and returns its path.
  std::filesystem::path put(const char* name, std::string_view text) const {
    write_file_atomically(path_ / name, text);
    return path_ / name;
  }
  /// The bytes of a file.
  std::string get(const char* name) const {
    const std::vector<std::byte> bytes = read_file(path_ / name);
    return std::string(text_of(bytes));
  }

 private:
  std::filesystem::path path_;
};

/// A file of the real data, in $BOCHNER_DATA or in ../shared/data beside the sources; empty if there is none.
inline std::filesystem::path shared_data(const char* name) {
  const char* chosen = std::getenv("BOCHNER_DATA");
  const std::filesystem::path beside = BOCHNER_SOURCE_DIR "/../shared/data";
  const std::filesystem::path path = (chosen == nullptr ? beside : std::filesystem::path(chosen)) / name;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace bochner::testing_
