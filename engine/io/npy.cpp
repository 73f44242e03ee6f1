#include "engine/io/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "engine/io/elements.h"
#include "engine/io/file.h"

namespace bochner {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kLongestHeader = 65535;

constexpr std::array<std::pair<std::string_view, FileType>, 11> kNpyTypes = {{{"<f4", FileType::f32},
                                                                              {"<f8", FileType::f64},
                                                                              {"<i4", FileType::i32},
                                                                              {"<i8", FileType::i64},
                                                                              {"|u1", FileType::u8},
                                                                              {"|b1", FileType::boolean},
                                                                              {"<f2", FileType::f16},
                                                                              {"|i1", FileType::i8},
                                                                              {"<i2", FileType::i16},
                                                                              {"<u2", FileType::u16},
                                                                              {"<u4", FileType::u32}}};

struct Header {
  std::string_view descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`: the part of Python's syntax that NumPy writes.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, int64_t start, std::string_view file) : text_(text), start_(start), file_(file) {}

  Header parse() {
    std::array<bool, 3> seen{};
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      const auto known = std::find(kKeys.begin(), kKeys.end(), key);
      if (known == kKeys.end()) refuse("the unknown key {}; known are descr, fortran_order, shape", shown(key));
      if (std::exchange(seen[static_cast<size_t>(known - kKeys.begin())], true)) {
        refuse("the key {} for the second time", shown(key));
      }
      read_value(key);
      if (!accept(',') && peek() != '}') refuse("{} instead of a comma or a closing brace", here());
    }
    if (peek() != '\0' || at_ < text_.size()) refuse("{} behind the dictionary", here());
    for (size_t i = 0; i < kKeys.size(); ++i) {
      if (!seen[i]) refuse("no key '{}'", kKeys[i]);
    }
    return std::move(header_);
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};

  void read_value(std::string_view key) {
    if (key == "descr") {
      if (peek() == '[') refuse("an array of records, which Bochner does not read; save one array per field");
      header_.descr = string();
    } else if (key == "fortran_order") {
      header_.fortran_order = peek() == 'T';
      const std::string_view word = header_.fortran_order ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) refuse("{} instead of True or False", here());
      at_ += word.size();
    } else {
      expect('(');
      while (!accept(')')) {
        header_.shape.push_back(integer());
        if (!accept(',') && peek() != ')') refuse("{} instead of a comma or a closing bracket", here());
      }
    }
  }

  int64_t integer() {
    peek();
    const char* begin = text_.data() + at_;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) refuse("a size that does not fit 64 bits");
    if (error != std::errc() || value < 0) refuse("{} instead of a size", here());
    at_ += static_cast<size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote long integers
    return value;
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse("{} instead of a string", here());
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("a string without end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  /// The next character that is not a blank, or zero at the end.
  char peek() {
    at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    const bool found = peek() == c && at_ < text_.size();
    at_ += found ? 1 : 0;
    return found;
  }
  void expect(char c) {
    if (!accept(c)) refuse("{} instead of '{}'", here(), c);
  }
  std::string here() const { return at_ < text_.size() ? shown(text_.substr(at_, 1)) : "its end"; }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(file_, start_ + static_cast<int64_t>(at_), "the npy header has {}; save the array again with numpy.save",
            fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view text_;
  int64_t start_;
  std::string_view file_;
  size_t at_ = 0;
  Header header_;
};

FileType type_of(std::string_view descr, std::string_view file, int64_t offset) {
  std::string known;
  for (const auto& [name, type] : kNpyTypes) {
    // The byte order means nothing for types of one byte; '=' is the order of this machine.
    const bool same_order = descr.starts_with(name[0]) || descr.starts_with('=') || name[0] == '|';
    if (descr.size() == 3 && same_order && descr.substr(1) == name.substr(1)) return type;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  const char* hint = "known are";
  if (descr.starts_with('>')) hint = "it is big-endian; known are";
  if (descr.ends_with('O')) hint = "Python objects are not read; known are";
  fail_at(file, offset, "the npy header has the type {}; {} {}: convert the array with astype()", shown(descr), hint,
          known);
}

Tensor parse(std::string_view file, int64_t size, const ReadAt& read_at) {
  std::array<std::byte, 12> first{};
  const auto there = static_cast<size_t>(std::min<int64_t>(size, first.size()));
  read_at(0, std::span(first).first(there));
  ByteReader reader(Bytes(first).first(there), file);
  if (text_of(reader.take(6, "the magic number of an npy file")) != kMagic) {
    reader.fail_before(6, "it does not begin with \\x93NUMPY; is it an npy file?");
  }
  const auto version = reader.little<uint8_t>("the version");
  const auto minor = reader.little<uint8_t>("the version");
  if (version < 1 || version > 3 || minor != 0) {
    reader.fail_before(2, "npy version {}.{}, known are 1.0, 2.0 and 3.0; save the array again", version, minor);
  }
  const char* what = "the length of the header";
  const int64_t length = version == 1 ? reader.little<uint16_t>(what) : reader.little<uint32_t>(what);
  const int64_t start = reader.offset();
  if (length > kLongestHeader) {
    fail_at(file, start, "the npy header takes {} bytes, at most {} are read; save the array again", length,
            kLongestHeader);
  }
  if (length > size - start) {
    fail_at(file, start, "the npy header should take {} bytes, only {} follow; the file is cut short", length,
            size - start);
  }
  std::string text(static_cast<size_t>(length), '\0');
  read_at(start, std::as_writable_bytes(std::span(text)));

  Header header = HeaderParser(text, start, file).parse();
  const FileType type = type_of(header.descr, file, start);
  if (header.fortran_order) std::reverse(header.shape.begin(), header.shape.end());
  const Layout layout(type, header.shape, "the array", file, start);
  const int64_t data = start + length;
  if (layout.bytes() != size - data) {
    fail_at(file, data, "the array takes {} bytes, {} follow the header; the file is {}", layout.bytes(), size - data,
            layout.bytes() > size - data ? "cut short: fetch or write it again" : "damaged or holds several arrays");
  }
  Tensor tensor = read_elements(
      layout, std::endian::little, [&](std::span<std::byte> to) { read_at(data, to); }, "the array", file, data);
  if (!header.fortran_order) return tensor;
  Dims axes;
  for (int i = tensor.rank() - 1; i >= 0; --i) axes.push_back(i);
  return tensor.permute(axes).contiguous();
}

void encode_npy(ByteSink& sink, const Tensor& tensor) {
  if (!tensor.defined()) fail("npy: no tensor to write; only defined tensors can be saved");
  std::string_view descr;
  for (const auto& [name, type] : kNpyTypes) {
    if (type == file_type_of(tensor.dtype())) descr = name;
  }
  if (descr.empty()) fail("npy: NumPy has no type {}; cast the tensor to f32 first", name_of(tensor.dtype()));
  // Shapes print like Python's tuples. Padding aligns the data to 64 bytes; the last character is a line end.
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, tensor.shape().str());
  const size_t before = kMagic.size() + 4;
  header.resize(round_up(before + header.size() + 1, 64) - before, ' ');
  header.back() = '\n';
  sink.write(kMagic);
  sink.write(std::string_view("\x01\x00", 2));
  sink.write(Bytes(little_bytes(static_cast<uint16_t>(header.size()))));
  sink.write(header);
  const Tensor elements = tensor.to(Device::cpu()).contiguous();
  sink.write(bytes_of(elements));
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  const InputFile file(path);
  return parse(file.name(), file.size(), [&](int64_t offset, std::span<std::byte> to) { file.read_at(offset, to); });
}

Tensor parse_npy(Bytes bytes, std::string_view file) {
  return parse(file, static_cast<int64_t>(bytes.size()), reader_of(bytes));
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  AtomicFile file(path);
  encode_npy(file, tensor);
  file.commit();
}

std::vector<std::byte> format_npy(const Tensor& tensor) {
  MemorySink sink;
  encode_npy(sink, tensor);
  return sink.take();
}

}  // namespace bochner
