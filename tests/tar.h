// Tar archives for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace bochner::test {

/// An archive in the oldest form for these files, pairs of a name of up to 99 bytes and contents: octal numbers, no
/// folders.
template <class Files>
std::string tar_of(const Files& files) {
  std::string all;
  for (const auto& [name, text] : files) {
    std::string header(512, '\0');
    const auto put = [&](size_t at, const std::string& field) { header.replace(at, field.size(), field); };
    put(0, name);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, fmt::format("{:011o}", text.size()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    all += header + text + std::string((512 - text.size() % 512) % 512, '\0');
  }
  return all + std::string(1024, '\0');
}

}  // namespace bochner::test
