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

template <class Json>
Json parsed(std::string_view text, const std::string& file) {
  if (text.find('\0') != std::string_view::npos) fail("{}: a zero byte; this is no JSON", file);  // it would end there
  std::vector<std::set<std::string>> names;
  const auto look = [&](int depth, typename Json::parse_event_t event, Json& value) {
    if (depth > 50) fail("{}: nested too deep", file);
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(value.template get<std::string>()).second) {
      fail("{}: {} comes twice", file, shown(value.template get<std::string>()));
    }
    return true;
  };
  try {
    return Json::parse(text, look);
  } catch (const typename Json::exception& error) {
    std::string_view what = error.what();  // [json.exception.parse_error.101] parse error at line 1, column 9: ...
    what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
    const size_t place = what.find(": ") == std::string_view::npos ? 0 : what.find(": ") + 2;
    fail("{}: {}{}", file, what.substr(0, place), shown(what.substr(place)));
  }
}

}  // namespace

json read_json_object(const std::filesystem::path& path, int64_t limit) {
  const auto source = open_unpacked(path);
  json root = parsed<json>(text_of(read_all(*source, limit)), path.string());
  if (!root.is_object()) fail("{}: not a JSON object", path.string());
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
