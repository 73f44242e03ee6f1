// Decodes UTF-8 that may be damaged, one character at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bochner::unicode {

struct Decoded {
  uint32_t code;   ///< U+FFFD where `valid` is false
  uint32_t bytes;  ///< how many were read, at least 1
  bool valid;
};

/// The character at the start of `text`, which is not empty. Damaged bytes become one U+FFFD for each longest beginning
/// of a character, as in the Unicode standard (3.9, "maximal subparts"), Python's errors="replace" and Rust's
/// from_utf8_lossy.
inline Decoded decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  uint32_t length = 0;
  uint32_t least = 0x80;  // bounds of the second byte: they keep out long forms, surrogates and what is past U+10FFFF
  uint32_t most = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) least = 0xA0;
    if (first == 0xED) most = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) least = 0x90;
    if (first == 0xF4) most = 0x8F;
  } else {
    return {0xFFFD, 1, false};
  }
  uint32_t code = first & (0x7FU >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < least || byte(i) > most) return {0xFFFD, i, false};
    code = (code << 6U) | (byte(i) & 0x3FU);
    least = 0x80;
    most = 0xBF;
  }
  return {code, length, true};
}

inline void append(uint32_t code, std::string& text) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

/// The number of characters of valid UTF-8.
inline int64_t characters(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

}  // namespace bochner::unicode
