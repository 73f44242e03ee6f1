#include "engine/io/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/lines.h"

namespace bochner {
namespace {

constexpr size_t kFirstBuffer = size_t{1} << 16;
constexpr size_t kMostFields = size_t{1} << 20;

/// The first c in [begin, end), or end. Fields are mostly short: a loop, then memchr.
const char* find(const char* begin, const char* end, char c) {
  const char* soon = end - begin > 16 ? begin + 16 : end;
  for (; begin != soon; ++begin) {
    if (*begin == c) return begin;
  }
  const void* found = begin == end ? nullptr : std::memchr(begin, c, static_cast<size_t>(end - begin));
  return found == nullptr ? end : static_cast<const char*>(found);
}
char* find(char* begin, char* end, char c) {
  return const_cast<char*>(find(static_cast<const char*>(begin), static_cast<const char*>(end), c));
}

/// Removes blanks and one plus sign, which from_chars does not accept.
std::string_view digits_of(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  return text;
}

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path, CsvOptions options) : CsvReader(open_unpacked(path), options) {}

CsvReader::CsvReader(Bytes bytes, std::string_view file, CsvOptions options)
    : CsvReader(unpacked(std::make_unique<MemorySource>(bytes, file)), options) {}

CsvReader::CsvReader(std::unique_ptr<ByteSource> source, CsvOptions options)
    : source_(std::move(source)), options_(options), buffer_(kFirstBuffer) {
  skip_mark();
}

/// Reads at least one byte behind end_, moving and enlarging the buffer as needed; false at the end of the file.
bool CsvReader::read_more() {
  if (exhausted_) return false;
  if (end_ == buffer_.size()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (end_ > buffer_.size() / 2) buffer_.resize(2 * buffer_.size());
  }
  const size_t count = source_->read(std::as_writable_bytes(std::span(buffer_).subspan(end_)));
  end_ += count;
  exhausted_ = count == 0;
  return !exhausted_;
}

void CsvReader::skip_mark() {
  while (end_ < kByteOrderMark.size() && read_more()) {
  }
  const std::string_view start(buffer_.data(), std::min(end_, kByteOrderMark.size()));
  if (start == kByteOrderMark) begin_ = kByteOrderMark.size();
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
    fail("{}: row 1 column 1: the text is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", source_->name());
  }
}

/// The length of the row that begins at begin_, the number of bytes to the next row, and whether the row has quotes
/// that count. False at the end.
bool CsvReader::find_row(size_t& length, size_t& next, bool& quotes) {
  size_t seen = 0;      // bytes of the row looked at
  bool inside = false;  // a quoted field: an odd number of quotes so far
  quotes = false;
  for (;;) {
    const char* start = buffer_.data() + begin_;
    const char* end = buffer_.data() + end_;
    const char* from = start + seen;
    const char* line_end = find(from, end, '\n');
    const bool is_comment = options_.comment != 0 && start != end && *start == options_.comment;  // its quotes are text
    if (options_.quotes && !is_comment) {
      const auto count = std::count(from, line_end, '"');
      quotes = quotes || count > 0;
      inside = inside != (count % 2 != 0);
    }
    length = static_cast<size_t>(line_end - start);
    if (static_cast<int64_t>(length) > options_.max_row_bytes) {
      fail("{}: row {} column 1: the row is longer than {} bytes; {}is it the right file?", source_->name(), row_ + 1,
           options_.max_row_bytes, inside ? "a quote is not closed, or " : "");
    }
    if (line_end != end && !inside) {
      next = length + 1;
      return true;
    }
    seen = line_end == end ? length : length + 1;
    if (line_end == end && !read_more()) {
      next = length;
      return length > 0;
    }
  }
}

bool CsvReader::next() {
  size_t length = 0;
  size_t next = 0;
  bool quotes = false;
  for (;;) {
    fields_.clear();
    if (!find_row(length, next, quotes)) return false;
    char* begin = buffer_.data() + begin_;
    begin_ += next;
    if (length > 0 && begin[length - 1] == '\r') --length;
    if (length == 0 && options_.skip_empty_lines) continue;
    ++row_;
    if (length > 0 && options_.comment != 0 && *begin == options_.comment) continue;
    split(begin, begin + length, quotes);
    break;
  }
  if (columns_ < 0) columns_ = size();
  if (!options_.ragged && size() != columns_) {
    const bool is_empty = size() == 1 && fields_[0].empty();
    fail_in(static_cast<int>(std::min<int64_t>(size(), columns_)), "the row has {} fields, the first one has {}; {}",
            size(), columns_,
            is_empty ? "remove the empty line"
                     : fmt::format("mend the row, if fields are separated by {}", shown({&options_.separator, 1})));
  }
  return true;
}

void CsvReader::add_field(const char* begin, const char* end) {
  if (fields_.size() == kMostFields) fail_in(size(), "the row has more than {} fields", kMostFields);
  fields_.emplace_back(begin, static_cast<size_t>(end - begin));
}

void CsvReader::split(char* begin, char* end, bool quotes) {
  if (const char* zero = find(begin, end, '\0'); zero != end) {
    fail_in(static_cast<int>(std::count(begin, const_cast<char*>(zero), options_.separator)),
            "a zero byte; is it a text file in UTF-8?");
  }
  for (;;) {
    char* stop = nullptr;
    if (quotes && begin != end && *begin == '"') {
      stop = split_quoted(begin, end);
    } else {
      stop = find(begin, end, options_.separator);
      if (quotes && find(begin, stop, '"') != stop) {
        fail_in(size(), "a quote inside the field {}; quote the whole field, its own quotes doubled",
                shown({begin, static_cast<size_t>(stop - begin)}));
      }
      add_field(begin, stop);
    }
    if (stop == end) return;
    begin = stop + 1;
  }
}

/// Takes the field that begins with the quote at `begin`, halving doubled quotes in place; returns where it ends.
char* CsvReader::split_quoted(char* begin, char* end) {
  char* read = begin + 1;
  char* write = begin;
  for (;;) {
    char* quote = find(read, end, '"');
    std::memmove(write, read, static_cast<size_t>(quote - read));
    write += quote - read;
    if (quote == end) fail_in(size(), "the quote that opens the field is not closed; close it");
    if (quote + 1 == end || quote[1] == options_.separator) {
      add_field(begin, write);
      return quote + 1;
    }
    if (quote[1] != '"') {
      fail_in(size(), "{} follows the closing quote; quotes inside a quoted field are doubled", shown({quote + 1, 1}));
    }
    *write++ = '"';
    read = quote + 2;
  }
}

std::string CsvReader::place(int column) const {
  std::string text = fmt::format("{}: row {} column {}", source_->name(), row_, column + 1);
  if (column >= 0 && column < static_cast<int>(header_.size())) {
    text += fmt::format(" ({})", shown(header_[static_cast<size_t>(column)]));
  }
  return text;
}

std::string_view CsvReader::operator[](int column) const {
  if (column < 0 || column >= size()) fail_in(column, "there is no such column, the row has {} fields", size());
  return fields_[static_cast<size_t>(column)];
}

double CsvReader::number(int column) const {
  const std::string_view text = digits_of((*this)[column]);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (stop != text.data() + text.size() || error == std::errc::invalid_argument) {
    fail_in(column, "{} is not a number", shown((*this)[column]));
  }
  if (error == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);  // too large or too small?
    if (std::isinf(value)) fail_in(column, "{} is too large for a number", shown((*this)[column]));
  }
  return value;
}

int64_t CsvReader::integer(int column) const {
  const std::string_view text = digits_of((*this)[column]);
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (stop != text.data() + text.size() || error == std::errc::invalid_argument) {
    fail_in(column, "{} is not an integer", shown((*this)[column]));
  }
  if (error == std::errc::result_out_of_range) fail_in(column, "{} does not fit 64 bits", shown((*this)[column]));
  return value;
}

void CsvReader::read_header() {
  if (!next())
    fail("{}: row 1 column 1: the file is empty, the names of its columns should stand here", source_->name());
  std::vector<std::string> names;
  for (const std::string_view field : fields_) names.emplace_back(options_.trims_names ? trimmed(field) : field);
  header_ = std::move(names);
}

int CsvReader::column(std::string_view name) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  if (found != header_.end()) {
    const auto again = std::find(found + 1, header_.end(), name);
    if (again == header_.end()) return static_cast<int>(found - header_.begin());
    fail("{}: row 1 column {}: columns {} and {} are both named {}; give one another name, or say its number",
         source_->name(), again - header_.begin() + 1, found - header_.begin() + 1, again - header_.begin() + 1,
         shown(name));
  }
  std::string names;
  for (const std::string& known : header_) {
    if (names.size() > 200) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "" : ", ") + shown(known);
  }
  fail("{}: row 1 column 1: no column is named {}; the names are {}", source_->name(), shown(name), names);
}

// ---- writing

struct CsvWriter::Output {
  explicit Output(const std::filesystem::path& path) : file(path) {
    if (path.extension() == ".gz") gzip = std::make_unique<GzipSink>(file);
  }

  void write(std::string_view text) {
    if (gzip) {
      gzip->write(text);
    } else {
      file.write(text);
    }
  }

  AtomicFile file;
  std::unique_ptr<GzipSink> gzip;
};

CsvWriter::CsvWriter(const std::filesystem::path& path, CsvOptions options)
    : name_(path.string()), options_(options), output_(std::make_unique<Output>(path)) {}

CsvWriter::~CsvWriter() = default;

std::string format_row(std::span<const std::string_view> fields, const CsvOptions& options) {
  std::string row;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string_view field = fields[i];
    if (i > 0) row += options.separator;
    const bool lone_and_empty = fields.size() == 1 && field.empty();  // would read as an empty line
    const bool special = field.find(options.separator) != std::string_view::npos ||
                         field.find_first_of(options.quotes ? "\"\r\n" : "\r\n") != std::string_view::npos;
    if (field.find('\0') != std::string_view::npos) fail("csv: a zero byte in the field {}; remove it", shown(field));
    if (!options.quotes) {
      if (special) {
        fail("csv: the field {} holds a separator or a line end, which needs quotes; remove it, or allow quotes",
             shown(field));
      }
      row += field;
      continue;
    }
    if (!special && !lone_and_empty) {
      row += field;
      continue;
    }
    row += '"';
    for (const char c : field) row.append(c == '"' ? 2 : 1, c);
    row += '"';
  }
  return row + '\n';
}

void CsvWriter::write_row(std::span<const std::string_view> fields) {
  if (fields.empty()) fail("{}: row {}: a row needs at least one field", name_, row_ + 1);
  if (row_ == 0) columns_ = fields.size();
  if (!options_.ragged && fields.size() != columns_) {
    fail("{}: row {}: {} fields, the first row has {}; all rows of a table have as many", name_, row_ + 1,
         fields.size(), columns_);
  }
  buffer_ += format_row(fields, options_);
  ++row_;
  if (buffer_.size() >= kFirstBuffer) {
    output_->write(buffer_);
    buffer_.clear();
  }
}

void CsvWriter::commit() {
  output_->write(buffer_);
  buffer_.clear();
  if (output_->gzip) output_->gzip->finish();
  output_->file.commit();
}

}  // namespace bochner
