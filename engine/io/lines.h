// The lines of a text in memory, or of a source of any size, one at a time.
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

/// The byte order mark that some programs write before UTF-8 text; it is not part of the text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The lines of `text` without their ends, `\n` or `\r\n`; the last one may have no end. They point into `text`.
std::vector<std::string_view> lines_of(std::string_view text);
/// `text` without blanks and tabs at its ends.
std::string_view trimmed(std::string_view text);

/// Lines without their ends, `\n` or `\r\n`. A line of more than 64 MiB is an Error.
class Lines {
 public:
  /// The source must outlive this.
  explicit Lines(ByteSource& source) : source_(source) {}

  /// The next line, valid until the next call; nullopt at the end.
  std::optional<std::string_view> next();

 private:
  std::string_view line(size_t end, size_t used);

  ByteSource& source_;
  std::string text_;
  size_t used_ = 0;  ///< bytes of the previous line
};

}  // namespace bochner
