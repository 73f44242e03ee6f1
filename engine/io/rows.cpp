#include "engine/io/rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "engine/io/csv.h"
#include "engine/parallel.h"

namespace bochner {
namespace {

constexpr size_t kBlock = size_t{8} << 20;    // bytes read at once
constexpr size_t kPiece = size_t{128} << 10;  // bytes that one thread takes at a time
constexpr int64_t kMostColumns = int64_t{1} << 20;

constexpr std::array<double, 23> kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

/// The number that is the whole of a field, as CsvReader::number reads it; false where that is not finite or refuses.
bool exact_number(const char* begin, const char* end, double& value) {
  std::string_view text = trimmed({begin, static_cast<size_t>(end - begin)});
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && std::isfinite(value);
}

/// Reads a number at `at` up to the separator or the line end, and moves `at` there. Up to 15 digits times a power of
/// ten up to 22 are exact in f64 with one rounding; all else goes to from_chars.
bool read_number(const char*& at, const char* end, char separator, double& value) {
  const char* const begin = at;
  const bool minus = at != end && *at == '-';
  if (minus) ++at;
  uint64_t digits = 0;
  const char* const first = at;
  while (at != end && is_digit(*at)) digits = digits * 10 + static_cast<uint64_t>(*at++ - '0');
  int64_t count = at - first;
  int64_t exponent = 0;
  if (at != end && *at == '.') {
    const char* const point = ++at;
    while (at != end && is_digit(*at)) digits = digits * 10 + static_cast<uint64_t>(*at++ - '0');
    exponent = point - at;
    count -= exponent;
  }
  if (count > 0 && at != end && (*at == 'e' || *at == 'E')) {
    const char* mark = at + 1;
    const bool down = mark != end && *mark == '-';
    if (mark != end && (*mark == '-' || *mark == '+')) ++mark;
    int64_t shift = 0;
    const char* const shifted = mark;
    while (mark != end && is_digit(*mark) && mark - shifted < 5) shift = shift * 10 + (*mark++ - '0');
    if (mark != shifted) {
      at = mark;
      exponent += down ? -shift : shift;
    }
  }
  if ((at == end || *at == separator || *at == '\n') && count > 0 && count <= 15 && exponent >= -22 && exponent <= 22) {
    const auto whole = static_cast<double>(digits);
    const double size =
        exponent < 0 ? whole / kPowers[static_cast<size_t>(-exponent)] : whole * kPowers[static_cast<size_t>(exponent)];
    value = minus ? -size : size;
    return true;
  }
  while (at != end && *at != separator && *at != '\n') ++at;
  const char* stop = at;
  if (stop != begin && stop[-1] == '\r' && (at == end || *at == '\n')) --stop;
  return exact_number(begin, stop, value);
}

/// Classes as a thread meets them.
class Classes {
 public:
  explicit Classes(int64_t most) : most_(most) {}

  /// The number of a class, -1 where there would be too many.
  int64_t operator[](std::string_view name) {
    if (latest_ >= 0 && names_[static_cast<size_t>(latest_)] == name) return latest_;
    auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      if (static_cast<int64_t>(names_.size()) == most_) return -1;
      found = numbers_.emplace(name, static_cast<int64_t>(names_.size())).first;
      names_.emplace_back(name);
    }
    return latest_ = found->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  int64_t most_;
  int64_t latest_ = -1;
  std::vector<std::string> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

/// Whole lines -> their numbers; false where a row is not plain.
bool read_lines(const char* at, const char* end, int64_t fields, int64_t label, const PlainRowsOptions& options,
                RowPiece& piece, Classes& classes) {
  const char separator = options.separator;
  piece.values.reserve(static_cast<size_t>((end - at) / 2 + fields));
  while (at != end) {
    if (*at == '\n' || (*at == '\r' && (at + 1 == end || at[1] == '\n'))) {  // an empty line
      at += *at == '\n' || at + 1 == end ? 1 : 2;
      continue;
    }
    for (int64_t field = 0; field < fields; ++field) {
      if (field == label) {
        const char* const begin = at;
        while (at != end && *at != separator && *at != '\n') ++at;
        const char* stop = at;
        if (stop != begin && stop[-1] == '\r' && (at == end || *at == '\n')) --stop;
        const std::string_view name = trimmed({begin, static_cast<size_t>(stop - begin)});
        const int64_t number = name.empty() ? -1 : classes[name];
        if (number < 0) return false;
        piece.labels.push_back(number);
      } else {
        double value = 0;
        if (!read_number(at, end, separator, value)) return false;
        piece.values.push_back(static_cast<float>(value));
      }
      const bool last = field + 1 == fields;
      if (last ? at != end && *at != '\n' : at == end || *at != separator) return false;  // ragged
      if (at != end) ++at;
    }
  }
  return true;
}

/// Past the empty lines at `begin`.
const char* first_line(const char* begin, const char* end) {
  while (begin != end && (*begin == '\n' || *begin == '\r')) ++begin;
  return begin;
}

/// The last line end in [begin, end) and past it; `begin` where there is none.
const char* after_last_line(const char* begin, const char* end) {
  const void* found = memrchr(begin, '\n', static_cast<size_t>(end - begin));
  return found == nullptr ? begin : static_cast<const char*>(found) + 1;
}

}  // namespace

bool read_plain_rows(ByteSource& source, const PlainRowsOptions& options, PlainRowsResult& result) {
  result = {};
  if (options.separator < ' ' ? options.separator != '\t' : std::strchr("+-.\"", options.separator) != nullptr)
    return false;
  if (std::isalnum(static_cast<unsigned char>(options.separator)) != 0) return false;
  std::vector<char> buffer(kBlock);
  size_t filled = 0;
  bool exhausted = false;
  int64_t fields = -1;
  int64_t label = -1;
  Classes classes(options.max_classes);
  while (!exhausted) {
    while (filled < buffer.size()) {
      const size_t count = source.read(std::as_writable_bytes(std::span(buffer).subspan(filled)));
      filled += count;
      exhausted = count == 0;
      if (exhausted) break;
    }
    const char* begin = buffer.data();
    const char* const filled_to = begin + filled;
    const char* const end = exhausted ? filled_to : after_last_line(begin, filled_to);
    if (end == begin && !exhausted) return false;  // a row longer than a block
    if (fields < 0) {
      if (end - begin >= 3 && std::memcmp(begin, "\xef\xbb\xbf", 3) == 0) begin += 3;  // byte order mark
      const char* line = first_line(begin, end);
      if (options.header && line != end) {
        const char* const stop = std::find(line, end, '\n');
        if (std::count(line, stop, '"') % 2 != 0) return false;  // the row of names goes on
        begin = stop == end ? end : stop + 1;
        line = first_line(begin, end);
      }
      if (line == end) {
        if (exhausted) break;
        return false;
      }
      fields = 1 + std::count(line, std::find(line, end, '\n'), options.separator);
      if (options.fields != 0 && fields != options.fields) return false;
      label = options.label < 0 ? options.label + fields : options.label;
      if (label < 0 || label >= fields || fields > kMostColumns) return false;
    }
    // Pieces of whole lines, whose bounds follow from the bytes alone.
    std::vector<const char*> bounds = {begin};
    while (bounds.back() != end) {
      const char* next = static_cast<size_t>(end - bounds.back()) <= kPiece ? end : bounds.back() + kPiece;
      if (next != end) {
        next = static_cast<const char*>(std::memchr(next, '\n', static_cast<size_t>(end - next)));
        next = next == nullptr ? end : next + 1;
      }
      bounds.push_back(next);
    }
    const size_t count = bounds.size() - 1;
    std::vector<RowPiece> pieces(count);
    std::vector<Classes> found(count, Classes(options.max_classes));
    std::atomic<bool> plain = true;
    parallel_for(static_cast<int64_t>(count), 1, [&](int64_t from, int64_t) {
      const auto i = static_cast<size_t>(from);
      const auto bytes = static_cast<size_t>(bounds[i + 1] - bounds[i]);
      const bool special = std::memchr(bounds[i], '"', bytes) != nullptr || std::memchr(bounds[i], 0, bytes) != nullptr;
      if (special || !read_lines(bounds[i], bounds[i + 1], fields, label, options, pieces[i], found[i])) plain = false;
    });
    if (!plain) return false;
    for (size_t i = 0; i < count; ++i) {
      std::vector<int64_t> place;
      for (const std::string& name : found[i].names()) place.push_back(classes[name]);
      if (std::find(place.begin(), place.end(), -1) != place.end()) return false;
      for (int64_t& one : pieces[i].labels) one = place[static_cast<size_t>(one)];
      pieces[i].values.shrink_to_fit();
      result.rows += static_cast<int64_t>(pieces[i].labels.size());
      if (!pieces[i].labels.empty()) result.pieces.push_back(std::move(pieces[i]));
    }
    filled = static_cast<size_t>(filled_to - end);
    std::memmove(buffer.data(), end, filled);
  }
  result.columns = std::max<int64_t>(0, fields - 1);
  result.classes = classes.names();
  return true;
}

}  // namespace bochner
