#include "engine/io/rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "engine/io/csv.h"
#include "engine/io/lines.h"
#include "engine/parallel.h"

namespace bochner {
namespace {

constexpr size_t kPieces = 32;  // of a block, each for one thread
constexpr size_t kBehind = 16;  // bytes behind a block that may be read
constexpr int64_t kMostColumns = int64_t{1} << 20;

constexpr std::array<double, 23> kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr std::array<uint64_t, 8> kWholePowers = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

__extension__ using Wide = unsigned __int128;

/// 10^-k = (mantissa + d) 2^-(63 + shift) with 0 <= d < 1.001 and the mantissa in [2^63, 2^64).
struct Reciprocal {
  uint64_t mantissa = 0;
  int shift = 0;
};
constexpr auto kReciprocals = [] {
  std::array<Reciprocal, 41> all;
  Wide leading = Wide{1} << 127;
  int shift = 0;
  for (Reciprocal& one : all) {
    one = {static_cast<uint64_t>(leading >> 64), shift};
    leading /= 10;
    for (; leading >> 127 == 0; ++shift) leading <<= 1;
  }
  return all;
}();

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

/// The value of eight decimal digits, one per byte, the first in the lowest byte.
uint64_t joined(uint64_t word) {
  word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FF;
  word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFF;
  return (word * 10000 + (word >> 32)) & 0x00000000FFFFFFFF;
}

/// Appends the digits at `at` to `number`, eight at a time, and returns where they end. Wraps around after 19 of them.
const char* take_digits(const char* at, uint64_t& number) {
  for (;; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    // The top bit is set in the lowest byte that is below '0' or above '9'; the bytes before it carry nothing over.
    const uint64_t others = ((word - 0x3030303030303030) | (word + 0x4646464646464646)) & 0x8080808080808080;
    if (others == 0) {
      number = number * 100000000 + joined(word & 0x0F0F0F0F0F0F0F0F);
      continue;
    }
    const int digits = std::countr_zero(others) / 8;
    if (digits == 0) return at;
    number =
        number * kWholePowers[static_cast<size_t>(digits)] + joined((word & 0x0F0F0F0F0F0F0F0F) << (64 - 8 * digits));
    return at + digits;
  }
}

/// digits * 10^exponent, rounded once; false if that takes more than a few instructions.
bool scaled(uint64_t digits, int64_t exponent, double& value) {
  if (digits <= uint64_t{1} << 53 && exponent >= -22 && exponent <= 22) {  // both factors are exact in f64
    const auto whole = static_cast<double>(digits);
    value =
        exponent < 0 ? whole / kPowers[static_cast<size_t>(-exponent)] : whole * kPowers[static_cast<size_t>(exponent)];
    return true;
  }
  if (digits == 0 || exponent >= 0 || -exponent >= static_cast<int64_t>(kReciprocals.size())) return false;
  // The leading 64 bits of the quotient, which exceeds them by less than 3 units in the last place: enough to round to
  // 53 bits unless the remainder may be one half.
  const Reciprocal& power = kReciprocals[static_cast<size_t>(-exponent)];
  const int zeros = std::countl_zero(digits);
  const auto leading = static_cast<uint64_t>((Wide{digits << zeros} * power.mantissa) >> 64);
  const int spare = leading >> 63 != 0 ? 11 : 10;
  const uint64_t half = uint64_t{1} << (spare - 1);
  const uint64_t rest = leading & (2 * half - 1);
  if (half - rest <= 3) return false;
  const uint64_t mantissa = (leading >> spare) + (rest > half ? 1 : 0);
  const auto biased = static_cast<uint64_t>(1023 + spare + 1 - zeros - power.shift);
  value = static_cast<double>(mantissa) * std::bit_cast<double>(biased << 52);
  return true;
}

/// Whether a number is within the range of f32.
bool fits(double value) { return std::isfinite(static_cast<float>(value)); }

/// Reads a whole field as a number, as CsvReader::number does; false if that refuses it or it is not a finite f32.
bool exact_number(const char* begin, const char* end, double& value) {
  std::string_view text = trimmed({begin, static_cast<size_t>(end - begin)});
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && fits(value);
}

/// Reads the number at `at` and moves `at` to the end of its field, where `expected` must stand: the separator or the
/// line end. Some line end always follows.
inline bool read_number(const char*& at, char separator, char expected, float& result) {
  if (is_digit(at[0]) && at[1] == expected) {  // the usual field in tables of categories
    result = static_cast<float>(*at++ - '0');
    return true;
  }
  const char* const begin = at;
  while (*at == ' ' && separator != ' ') ++at;
  const bool minus = *at == '-';
  if (minus) ++at;
  uint64_t digits = 0;
  const char* const first = at;
  at = take_digits(at, digits);
  int64_t count = at - first;
  int64_t exponent = 0;
  if (*at == '.') {
    const char* const point = ++at;
    at = take_digits(at, digits);
    exponent = point - at;
    count -= exponent;
  }
  if ((*at == 'e' || *at == 'E') && count > 0) {
    const char* mark = at + 1;
    const bool down = *mark == '-';
    if (*mark == '-' || *mark == '+') ++mark;
    int64_t shift = 0;
    const char* const shifted = mark;
    while (is_digit(*mark) && mark - shifted < 5) shift = shift * 10 + (*mark++ - '0');
    if (mark != shifted) {
      at = mark;
      exponent += down ? -shift : shift;
    }
  }
  if (*at == '\r' && at[1] == '\n') ++at;
  double size = 0;
  if (*at == expected && count > 0 && count <= 19 && scaled(digits, exponent, size) && (exponent <= 0 || fits(size))) {
    result = static_cast<float>(minus ? -size : size);
    return true;
  }
  while (*at != separator && *at != '\n') ++at;
  const char* const stop = at != begin && *at == '\n' && at[-1] == '\r' ? at - 1 : at;
  if (*at != expected || !exact_number(begin, stop, size)) return false;
  result = static_cast<float>(size);
  return true;
}

/// Classes in the order in which a thread meets them.
class Classes {
 public:
  explicit Classes(int64_t most) : most_(most) {}

  /// The number of a class; -1 if there would be too many, or if a plain row cannot hold the name.
  int64_t operator[](std::string_view name) {
    if (latest_ >= 0 && names_[static_cast<size_t>(latest_)] == name) return latest_;
    auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      const bool plain = !name.empty() && name.find('"') == name.npos && name.find('\0') == name.npos;
      if (!plain || static_cast<int64_t>(names_.size()) == most_) return -1;
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

/// Line ends in [at, end).
int64_t line_ends(const char* at, const char* end) {
  constexpr std::ptrdiff_t kRun = 128;  // counted in a byte, so that compilers use vector instructions
  int64_t count = 0;
  for (; end - at >= kRun; at += kRun) {
    uint8_t here = 0;
    for (std::ptrdiff_t i = 0; i < kRun; ++i) here = static_cast<uint8_t>(here + (at[i] == '\n' ? 1 : 0));
    count += here;
  }
  return count + std::count(at, end, '\n');
}

/// The length of the empty line at `at`, LF or CRLF; 0 if the line is not empty.
int empty_line(const char* at) { return *at == '\n' ? 1 : *at == '\r' && at[1] == '\n' ? 2 : 0; }

/// Reads the numbers of whole lines, all of which end with a line end; false if a row is not plain.
bool read_lines(const char* at, const char* end, int64_t fields, int64_t label, char separator, RowPiece& piece,
                Classes& classes) {
  // Each field takes at least two bytes, so a file of short lines after a long one gets no more memory than it can
  // fill.
  const int64_t most = std::min<int64_t>(line_ends(at, end), (end - at) / (2 * fields) + 1);
  piece.values.resize(static_cast<size_t>(most * (fields - 1)));
  piece.labels.reserve(static_cast<size_t>(most));
  float* to = piece.values.data();
  while (at != end) {
    if (const int empty = empty_line(at); empty > 0) {
      at += empty;
      continue;
    }
    for (int64_t field = 0; field < fields; ++field) {
      const char expected = field + 1 == fields ? '\n' : separator;
      if (field != label) {
        if (!read_number(at, separator, expected, *to++)) return false;
      } else {
        const char* const begin = at;
        while (*at != separator && *at != '\n') ++at;
        const char* const stop = at != begin && *at == '\n' && at[-1] == '\r' ? at - 1 : at;
        const int64_t number = classes[trimmed({begin, static_cast<size_t>(stop - begin)})];
        if (number < 0 || *at != expected) return false;
        piece.labels.push_back(number);
      }
      ++at;
    }
  }
  piece.values.resize(static_cast<size_t>(to - piece.values.data()));
  return true;
}

/// Skips the empty lines at `begin`. The byte before `end` is a line end.
const char* first_line(const char* begin, const char* end) {
  while (begin != end && empty_line(begin) > 0) begin += empty_line(begin);
  return begin;
}

/// The position after the last line end in [begin, end); `begin` if there is none.
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
  const auto block = static_cast<size_t>(options.block);
  const size_t piece = std::max<size_t>(1, block / kPieces);  // bytes, up to the next line end
  std::vector<char> buffer(block + kBehind);
  size_t filled = 0;
  bool exhausted = false;
  int64_t fields = -1;
  int64_t label = -1;
  Classes classes(options.max_classes);
  while (!exhausted) {
    while (filled < block && !exhausted) {
      const size_t count = source.read(std::as_writable_bytes(std::span(buffer).subspan(filled, block - filled)));
      filled += count;
      exhausted = count == 0;
    }
    if (exhausted && filled > 0 && buffer[filled - 1] != '\n') buffer[filled++] = '\n';
    const char* begin = buffer.data();
    const char* const filled_to = begin + filled;
    const char* const end = exhausted ? filled_to : after_last_line(begin, filled_to);
    if (end == begin && !exhausted) return false;  // a row longer than a block
    if (fields < 0) {
      if (std::string_view(begin, static_cast<size_t>(end - begin)).starts_with(kByteOrderMark))
        begin += kByteOrderMark.size();
      const char* line = first_line(begin, end);
      if (options.header && line != end) {
        const char* const stop = std::find(line, end, '\n');
        if (std::count(line, stop, '"') % 2 != 0) return false;  // the row of names continues
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
    // Pieces of whole lines, with bounds that depend on the bytes alone.
    std::vector<const char*> bounds = {begin};
    while (bounds.back() != end) {
      const char* next = static_cast<size_t>(end - bounds.back()) <= piece ? end : bounds.back() + piece;
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
      if (!read_lines(bounds[i], bounds[i + 1], fields, label, options.separator, pieces[i], found[i])) plain = false;
    });
    if (!plain) return false;
    for (size_t i = 0; i < count; ++i) {
      std::vector<int64_t> place;
      for (const std::string& name : found[i].names()) place.push_back(classes[name]);
      if (std::find(place.begin(), place.end(), -1) != place.end()) return false;
      for (int64_t& one : pieces[i].labels) one = place[static_cast<size_t>(one)];
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
