#include "engine/io/safetensors_header.h"

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/io/json_file.h"

namespace bochner {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, FileType>, 12> kNames = {{{"F32", FileType::f32},
                                                                           {"F64", FileType::f64},
                                                                           {"BF16", FileType::bf16},
                                                                           {"I32", FileType::i32},
                                                                           {"I64", FileType::i64},
                                                                           {"U8", FileType::u8},
                                                                           {"BOOL", FileType::boolean},
                                                                           {"F16", FileType::f16},
                                                                           {"I8", FileType::i8},
                                                                           {"I16", FileType::i16},
                                                                           {"U16", FileType::u16},
                                                                           {"U32", FileType::u32}}};

constexpr int64_t kHeaderStart = 8;

/// An iterator over text that counts how far the parser has come, since the parser does not report positions.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* place, const char** furthest) : place_(place), furthest_(furthest) {}
  reference operator*() const { return *place_; }
  CountingIterator& operator++() {
    *furthest_ = ++place_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return place_ == other.place_; }
  bool operator!=(const CountingIterator& other) const { return place_ != other.place_; }

 private:
  const char* place_;
  const char** furthest_;
};

/// Handles the events of the JSON parser and accepts exactly the form of a header. No tree is built, so nesting costs
/// nothing, and hostile text costs no more memory than its length.
class Handler final : public json::json_sax_t {
 public:
  Handler(std::string_view text, std::string_view file) : text_(text), file_(file), furthest_(text.data()) {}

  const char** furthest() { return &furthest_; }
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(json::number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(json::number_float_t, const std::string& digits) override {
    return unexpected(fmt::format("the number {}", shown(digits)));
  }
  bool binary(json::binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(json::number_unsigned_t value) override {
    if (place_ != Place::numbers) return unexpected(fmt::format("the number {}", value));
    if (value > static_cast<uint64_t>(INT64_MAX)) refuse("{} in {} overflows 63 bits", value, describe());
    numbers().push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = value;
    } else if (place_ == Place::item && key_ == "dtype") {
      header_.items.back().dtype = value;
    } else {
      return unexpected(fmt::format("the string {}", shown(value)));
    }
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::nothing) {
      place_ = Place::header;
    } else if (place_ == Place::header && key_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::header) {
      place_ = Place::item;
      header_.items.push_back({key_, {}, {}, {}, 0});
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::item) {
      for (const char* needed : {"dtype", "shape", "data_offsets"}) {
        if (!item_keys_.contains(needed)) refuse("tensor {} lacks its \"{}\"", shown(name_), needed);
      }
      item_keys_.clear();
      if (header_.items.back().data_offsets.size() != 2) {
        refuse("data_offsets of tensor {} are {} numbers, not two", shown(name_),
               header_.items.back().data_offsets.size());
      }
      header_.items.back().place = offset();
    }
    place_ = place_ == Place::header ? Place::end : Place::header;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::item || key_ == "dtype") return unexpected("an array");
    place_ = Place::numbers;
    return true;
  }

  bool end_array() override {
    place_ = Place::item;
    return true;
  }

  bool key(std::string& value) override {
    key_ = value;
    bool is_new = true;
    if (place_ == Place::header) {
      name_ = value;
      is_new = names_.insert(value).second;
    } else if (place_ == Place::metadata) {
      is_new = !header_.metadata.contains(value);
    } else {
      if (value != "dtype" && value != "shape" && value != "data_offsets") {
        refuse("tensor {} has the unknown key {}; known are dtype, shape, data_offsets", shown(name_), shown(value));
      }
      is_new = item_keys_.insert(value).second;
    }
    if (!is_new) refuse("{} stands here for the second time{}", shown(value), inside());
    return true;
  }

  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    // "parse error at line 1, column 9: syntax error while ...": the last part says it
    const std::string_view message = complaint_of(error);
    const size_t colon = message.find(": ");
    const std::string_view rest = colon == std::string_view::npos ? message : message.substr(colon + 2);
    refuse("not JSON: {}", shown(rest));
  }

 private:
  enum class Place { nothing, header, metadata, item, numbers, end };

  int64_t offset() const { return kHeaderStart + (furthest_ - text_.data()); }

  std::string inside() const {
    if (place_ == Place::metadata) return " in __metadata__";
    return place_ == Place::item ? fmt::format(" in tensor {}", shown(name_)) : "";
  }

  std::string describe() const {
    switch (place_) {
      case Place::nothing:
        return "the header";
      case Place::header:
        return fmt::format("the entry {}", shown(key_));
      default:
        return fmt::format("{}{}", shown(key_), inside());
      case Place::numbers:
        return fmt::format("the {} of tensor {}", key_, shown(name_));
    }
  }

  const char* wanted() const {
    switch (place_) {
      case Place::nothing:
        return "an object {...}";
      case Place::header:
        return "an object {\"dtype\", \"shape\", \"data_offsets\"}";
      case Place::metadata:
        return "a string";
      case Place::item:
        return key_ == "dtype" ? "a string" : "an array of numbers";
      default:
        return "a non-negative integer";
    }
  }

  bool unexpected(std::string_view found) const { refuse("{} is {}, it must be {}", describe(), found, wanted()); }

  std::vector<int64_t>& numbers() {
    SafetensorsHeader::Item& item = header_.items.back();
    return key_ == "shape" ? item.shape : item.data_offsets;
  }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(file_, offset(), "safetensors header: {}; the file is damaged or no safetensors file",
            fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view text_;
  std::string_view file_;
  const char* furthest_;
  Place place_ = Place::nothing;
  std::string key_;
  std::string name_;  ///< key of the current entry
  std::set<std::string> names_;
  std::set<std::string> item_keys_;
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view file) {
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {  // the parser would stop there
    fail_at(file, kHeaderStart + static_cast<int64_t>(zero),
            "safetensors header: a zero byte; the file is damaged or no safetensors file");
  }
  Handler handler(text, file);
  const CountingIterator begin(text.data(), handler.furthest());
  const CountingIterator end(text.data() + text.size(), handler.furthest());
  json::sax_parse(begin, end, &handler);  // every failure throws from the handler
  return handler.take();
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json text = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) text["__metadata__"] = header.metadata;
  for (const SafetensorsHeader::Item& item : header.items) {
    text[item.name] = {{"dtype", item.dtype}, {"shape", item.shape}, {"data_offsets", item.data_offsets}};
  }
  std::string result;
  try {
    result = text.dump();
  } catch (const json::exception&) {
    fail("safetensors: a tensor name or a metadata string is not UTF-8; only UTF-8 can be saved");
  }
  result.resize(round_up(result.size(), 8), ' ');
  return result;
}

std::string_view safetensors_name(FileType type) { return kNames.at(static_cast<size_t>(type)).first; }

FileType safetensors_type(std::string_view name, std::string_view tensor, std::string_view file, int64_t offset) {
  std::string known;
  for (const auto& [candidate, type] : kNames) {
    if (candidate == name) return type;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate);
  }
  fail_at(file, offset, "tensor {} has the dtype {}, known are {}; convert it before it is saved", shown(tensor),
          shown(name), known);
}

}  // namespace bochner
