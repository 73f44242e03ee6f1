// JSON files of other programs, such as config.json and tokenizer.json: read with limits, and their members with
// checks. For source files only, which must also include <nlohmann/json.hpp>.
//
//   const nlohmann::json root = read_json_object(path, kLargest);
//   const JsonMembers config(root, path.string());
//   const int64_t layers = config.number("num_hidden_layers", 1, 1000, 12);
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace bochner {

/// The object in a file, which may be compressed with gzip. An Error that names the file if it has more than `limit`
/// bytes, is not a JSON object, is nested deeper than 50, which could overflow the stack of a recursive reader, or has
/// a name twice in one object.
nlohmann::json read_json_object(const std::filesystem::path& path, int64_t limit);
/// The object in a text, with the same errors, which begin with `file`.
nlohmann::json parse_json_object(std::string_view text, const std::string& file);
/// Any value, with the same errors; its members keep their order.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& file);
/// The value on one line, or on many lines with `indent` blanks per level. JSON is UTF-8, but file names may hold any
/// bytes: those that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);
/// The message of an error of the JSON library, without its code `[json.exception.KIND.NUMBER] `. It may hold untrusted
/// text.
std::string_view complaint_of(const std::exception& error);
/// A value prepared for a message, as shown() (bytes.h) prepares text: one line of ASCII, cut if it is long.
std::string brief(const nlohmann::json& value);

/// The members of an object that are present and not null. Each Error begins with `where`.
class JsonMembers {
 public:
  /// `object` must outlive this. `where`: the file, and the object's place in it.
  JsonMembers(const nlohmann::json& object, std::string where);

  /// Null if there is none.
  const nlohmann::json* find(const char* name) const;
  const nlohmann::json& at(const char* name) const;

  // The value, or `otherwise` if there is none. Another type is an Error.

  bool flag(const char* name, bool otherwise) const;
  /// An integer from `least` to `most`, `least` not below 0.
  int64_t number(const char* name, int64_t least, int64_t most, int64_t otherwise) const;
  /// Any number from `least` to `most`.
  double real(const char* name, double least, double most, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;

  /// An Error unless the text `name` is `expected`.
  void require(const char* name, const std::string& expected) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace bochner
