#include "engine/io/lines.h"

#include <algorithm>

#include "engine/error.h"

namespace bochner {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<std::string_view> Lines::next() {
  constexpr size_t kLongest = size_t{64} << 20U;
  constexpr size_t kPiece = 65536;
  // Lines are short, so what is left of the text moves only when a new piece comes.
  size_t looked = used_;
  for (;;) {
    const size_t end = text_.find('\n', looked);
    if (end != std::string::npos) return line(end, end + 1);
    text_.erase(0, used_);
    used_ = 0;
    looked = text_.size();
    if (looked > kLongest) fail("{}: a line of more than 64 MiB", source_.name());
    text_.resize(looked + kPiece);
    const size_t count = source_.read(std::as_writable_bytes(std::span(text_).subspan(looked)));
    text_.resize(looked + count);
    if (count == 0) break;
  }
  if (text_.empty()) return std::nullopt;
  return line(text_.size(), text_.size());
}

std::string_view Lines::line(size_t end, size_t used) {
  std::string_view line = std::string_view(text_).substr(used_, end - used_);
  used_ = used;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace bochner
