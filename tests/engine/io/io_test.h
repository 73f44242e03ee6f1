// Helpers for the tests of foreign bytes: files of other writers, and a check that bad files are refused.
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
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner::test {

/// A file of tests/engine/io/golden.
std::filesystem::path golden(const std::string& name);

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

}  // namespace bochner::test
