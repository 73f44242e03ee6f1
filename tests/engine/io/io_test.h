// Helpers of the tests of foreign bytes: folders, messages, and a check that bad files are refused.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/io/bytes.h"
#include "engine/io/elements.h"
#include "engine/io/file.h"
#include "tests/message_of.h"

namespace bochner {

using test::message_of;

/// A folder of the running test, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  /// The names of the files in it.
  std::set<std::string> names() const;

 private:
  std::filesystem::path path_;
};

/// A file of tests/engine/io/golden.
std::filesystem::path golden(const std::string& name);

/// The folder of real data, if there is one: $BOCHNER_DATA, otherwise shared/data beside the repository.
std::filesystem::path shared_data();

/// The largest allocation while f runs, by new or for a tensor, in bytes. Under AddressSanitizer, which replaces new,
/// only tensors count.
int64_t largest_allocation(const std::function<void()>& f);

inline std::string text(Bytes bytes) { return std::string(text_of(bytes)); }
/// The bytes of the elements in row-major order.
inline std::string elements(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous();
  return text(bytes_of(flat));
}

struct BadFile {
  std::string what;     ///< what is wrong with it
  std::string bytes;    ///< the file
  std::string telling;  ///< must be part of the message
};

/// Each file must be refused by `parse(bytes, "bad.file")` with an Error of one readable line that begins with the name
/// of the file and contains `telling`, and without allocations out of proportion to the file.
void expect_refused(const std::vector<BadFile>& files, const std::function<void(Bytes, std::string_view)>& parse);

}  // namespace bochner
