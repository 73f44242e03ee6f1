#include "engine/io/bytes.h"

namespace bochner {

std::string shown(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string result = "'";
  for (const char c : text) {
    if (result.size() > kLongest) return result + "...'";
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + "'";
}

void ByteReader::too_short(int64_t count, std::string_view what) const {
  if (size() == 0) fail("{}: the file is empty, {} should stand at its start; fetch or write it again", file_, what);
  fail_here("{} takes {} bytes, only {} are left; the file is cut short or damaged: fetch or write it again", what,
            count, remaining());
}

}  // namespace bochner
