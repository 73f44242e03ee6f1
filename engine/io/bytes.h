// Bytes from outside, read through a cursor that cannot run past them, with messages that name the place.
//
//   ByteReader reader(bytes, "train-images-idx3-ubyte");
//   const auto magic = reader.big<uint32_t>("the magic number");
//   if (magic >> 16 != 0) reader.fail_before(4, "magic {:#x} is not that of an IDX file", magic);
//
// The rule of this folder: a number read from a file is never used as the size of an allocation, a loop or an index
// before it has been compared with the number of bytes really there. Messages read `file: offset N: what is wrong; what
// to do`.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "engine/error.h"

namespace bochner {

using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Untrusted text prepared for a message: in single quotes, on one line, with control characters and bytes outside
/// ASCII written as \x1b, and at most 80 characters long.
std::string shown(std::string_view text);

/// a + b and a * b of non-negative numbers, or nullopt if the result does not fit into 63 bits.
inline std::optional<int64_t> try_add(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
inline std::optional<int64_t> try_multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

/// Throws the Error `file: offset N: message`.
template <class... Args>
[[noreturn]] void fail_at(std::string_view file, int64_t offset, fmt::format_string<Args...> format, Args&&... args) {
  fail("{}: offset {}: {}", file, offset, fmt::format(format, std::forward<Args>(args)...));
}

/// A cursor over the bytes of a file. Reading past their end is an Error that names the offset and what was expected.
class ByteReader {
 public:
  /// `file` is the name for messages. The bytes must outlive the reader.
  ByteReader(Bytes bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  const std::string& file() const { return file_; }
  int64_t offset() const { return offset_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t remaining() const { return size() - offset_; }

  /// The next `count` bytes; `what` names them in the message.
  Bytes take(int64_t count, std::string_view what) {
    if (count < 0 || count > remaining()) too_short(count, what);
    const Bytes taken = bytes_.subspan(static_cast<size_t>(offset_), static_cast<size_t>(count));
    offset_ += count;
    return taken;
  }

  /// The next integer, least significant byte first.
  template <class T>
  T little(std::string_view what) {
    return integer<T>(what, std::endian::little);
  }
  /// The next integer, most significant byte first.
  template <class T>
  T big(std::string_view what) {
    return integer<T>(what, std::endian::big);
  }

  /// Throws the Error `file: offset N: message`, where N is the position of the cursor.
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(file_, offset_, format, std::forward<Args>(args)...);
  }
  /// The same for the offset `back` bytes before the cursor.
  template <class... Args>
  [[noreturn]] void fail_before(int64_t back, fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(file_, offset_ - back, format, std::forward<Args>(args)...);
  }

 private:
  [[noreturn]] void too_short(int64_t count, std::string_view what) const;

  template <class T>
  T integer(std::string_view what, std::endian order) {
    static_assert(std::is_unsigned_v<T>);
    T value = 0;
    const Bytes taken = take(sizeof(T), what);
    for (size_t i = 0; i < sizeof(T); ++i) {
      const size_t shift = 8 * (order == std::endian::little ? i : sizeof(T) - 1 - i);
      value = static_cast<T>(value | static_cast<T>(static_cast<uint64_t>(taken[i]) << shift));
    }
    return value;
  }

  Bytes bytes_;
  std::string file_;
  int64_t offset_ = 0;
};

/// The bytes of an unsigned integer, least significant first.
template <class T>
std::array<std::byte, sizeof(T)> little_bytes(T value) {
  static_assert(std::is_unsigned_v<T>);
  std::array<std::byte, sizeof(T)> bytes{};
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = static_cast<std::byte>((static_cast<uint64_t>(value) >> (8 * i)) & 0xffU);
  return bytes;
}
/// The bytes of an unsigned integer, most significant first.
template <class T>
std::array<std::byte, sizeof(T)> big_bytes(T value) {
  std::array<std::byte, sizeof(T)> bytes = little_bytes(value);
  for (size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  return bytes;
}

}  // namespace bochner
