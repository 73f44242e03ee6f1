// The lines of a text that is there, and of a source, one at a time, whatever its size.
//
//   const auto source = open_unpacked("notes.txt.gz");
//   Lines lines(*source);
//   while (const auto line = lines.next()) use(*line);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/stream.h"

namespace bochner {

/// What some programs write before text in UTF-8; no part of the text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The lines of `text` without their ends, `\n` or `\r\n`; the last one may have none. They point into it.
std::vector<std::string_view> lines_of(std::string_view text);
/// `text` without blanks and tabs at its ends.
std::string_view trimmed(std::string_view text);

/// Lines without their ends, `\n` or `\r\n`. One of more than 64 MiB is an Error.
class Lines {
 public:
  /// The source must outlive this.
  explicit Lines(ByteSource& source) : source_(source) {}

  /// Valid until the next call; nothing at the end.
  std::optional<std::string_view> next();

 private:
  std::string_view line(size_t end, size_t used);

  ByteSource& source_;
  std::string text_;
  size_t used_ = 0;  ///< bytes of the line before
};

}  // namespace bochner
