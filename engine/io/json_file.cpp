#include "engine/io/json_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "engine/error.h"
#include "engine/io/stream.h"

namespace bochner {

using nlohmann::json;

namespace {

/// Goes through a text before anything is made of it. A callback of the parser could look at the same, but then the
/// parser goes through all that an object or list holds so far whenever an object in it ends.
class Look final : public nlohmann::json_sax<json> {
 public:
  explicit Look(const std::string& file) : file_(file) {}

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*size*/) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t /*size*/) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) fail("{}: {} comes twice", file_, shown(name));
    return true;
  }
  /// It ends here; the parser will say the same.
  bool parse_error(size_t /*byte*/, const std::string& /*text*/, const json::exception& /*error*/) override {
    return false;
  }

 private:
  static constexpr size_t kDeepest = 50;
  static constexpr size_t kMost = 2'000'000;  ///< a packed file of 100 KB may unpack to many more, of 100 bytes each

  bool open() {
    if (names_.size() == kDeepest) fail("{}: nested too deep", file_);
    if (++opened_ > kMost) fail("{}: more than {} objects and lists", file_, kMost);
    names_.emplace_back();
    return true;
  }
  bool close() {
    names_.pop_back();
    return true;
  }

  const std::string& file_;
  size_t opened_ = 0;
  std::vector<std::set<std::string>> names_;  ///< of each object and list that is open
};

template <class Json>
Json parsed(std::string_view text, const std::string& file) {
  if (text.find('\0') != std::string_view::npos) fail("{}: a zero byte; this is no JSON", file);  // it would end there
  Look look(file);
  json::sax_parse(text, &look);
  try {
    return Json::parse(text);
  } catch (const typename Json::exception& error) {
    const std::string_view what = complaint_of(error);  // parse error at line 1, column 9: ...
    const size_t place = what.find(": ") == std::string_view::npos ? 0 : what.find(": ") + 2;
    fail("{}: {}{}", file, what.substr(0, place), shown(what.substr(place)));
  }
}

}  // namespace

std::string_view complaint_of(const std::exception& error) {
  std::string_view what = error.what();
  const size_t end = what.find("] ");
  if (what.starts_with("[json.exception.") && end != std::string_view::npos) what.remove_prefix(end + 2);
  return what;
}

json read_json_object(const std::filesystem::path& path, int64_t limit) {
  const auto source = open_unpacked(path);
  return parse_json_object(text_of(read_all(*source, limit)), path.string());
}

json parse_json_object(std::string_view text, const std::string& file) {
  json root = parsed<json>(text, file);
  if (!root.is_object()) fail("{}: not a JSON object", file);
  return root;
}

nlohmann::ordered_json parse_json(std::string_view text, const std::string& file) {
  return parsed<nlohmann::ordered_json>(text, file);
}

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}
std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string brief(const json& value) {
  constexpr size_t kLongest = 80;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

JsonMembers::JsonMembers(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) fail("{}: is no object", where_);
}

const json* JsonMembers::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const json& JsonMembers::at(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) fail("{}: there is no {}", where_, name);
  return *value;
}

bool JsonMembers::flag(const char* name, bool otherwise) const {
  const json* value = find(name);
  if (value != nullptr && !value->is_boolean())
    fail("{}: {} is {}, neither true nor false", where_, name, brief(*value));
  return value == nullptr ? otherwise : value->get<bool>();
}

int64_t JsonMembers::number(const char* name, int64_t least, int64_t most, int64_t otherwise) const {
  const json* value = find(name);
  if (value == nullptr) return otherwise;
  const bool fits = value->is_number_unsigned() && value->get<uint64_t>() <= static_cast<uint64_t>(most);
  if (!fits || value->get<int64_t>() < least) {
    fail("{}: {} is {}, no number from {} to {}", where_, name, brief(*value), least, most);
  }
  return value->get<int64_t>();
}

double JsonMembers::real(const char* name, double least, double most, double otherwise) const {
  const json* value = find(name);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : least - 1;
  if (!(number >= least && number <= most)) {
    fail("{}: {} is {}, no number from {} to {}", where_, name, brief(*value), least, most);
  }
  return number;
}

std::string JsonMembers::text(const char* name, const std::string& otherwise) const {
  const json* value = find(name);
  if (value != nullptr && !value->is_string()) fail("{}: {} is {}, no text", where_, name, brief(*value));
  return value == nullptr ? otherwise : value->get<std::string>();
}

void JsonMembers::require(const char* name, const std::string& expected) const {
  const std::string found = text(name, "");
  if (found != expected) fail("{}: {} is {}, and only {} is known here", where_, name, shown(found), expected);
}

}  // namespace bochner
