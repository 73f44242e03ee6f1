#include "experiments/common/config/ini.h"

#include <algorithm>
#include <map>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/lines.h"

namespace bochner {
namespace {

constexpr size_t kLongestLine = 1 << 16;

bool is_name(std::string_view text) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text.front() != '.' && text.back() != '.' && std::all_of(text.begin(), text.end(), is_part);
}

/// Position of the hash that begins a comment: the first one at the start of the line or after a blank.
size_t comment_at(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return i;
  }
  return line.size();
}

std::string parse_value(std::string_view text, std::string_view file, int line) {
  text = trimmed(text);
  if (!text.starts_with('"')) return std::string(trimmed(text.substr(0, comment_at(text))));
  std::string value;
  size_t at = 1;
  for (; at < text.size(); ++at) {
    if (text[at] != '"') {
      value += text[at];
    } else if (text.substr(at + 1).starts_with('"')) {
      value += text[at++];
    } else {
      break;
    }
  }
  if (at == text.size()) fail("{}:{}: the quote that opens is not closed", file, line);
  const std::string_view rest = trimmed(text.substr(at + 1));
  if (!rest.empty() && rest.front() != '#') {
    fail("{}:{}: {} follows the closing quote; a quote within quotes is written twice", file, line, shown(rest));
  }
  return value;
}

}  // namespace

std::vector<IniEntry> parse_ini(std::string_view text, std::string_view file) {
  std::vector<IniEntry> entries;
  std::map<std::string, int> seen;
  std::string section;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  int number = 0;
  for (std::string_view line : lines_of(text)) {
    ++number;
    if (line.size() > kLongestLine) fail("{}:{}: the line has more than {} bytes", file, number, kLongestLine);
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; };
    if (std::any_of(line.begin(), line.end(), is_control)) {
      fail("{}:{}: the line holds a control character; is this an INI file?", file, number);
    }
    line = trimmed(line);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const std::string_view header = trimmed(line.substr(0, comment_at(line)));
      if (!header.ends_with(']')) fail("{}:{}: the section {} lacks its closing bracket", file, number, shown(header));
      const std::string_view name = trimmed(header.substr(1, header.size() - 2));
      if (!is_name(name)) fail("{}:{}: {} is no name of a section", file, number, shown(name));
      section = std::string(name) + ".";
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      fail("{}:{}: {} is neither `key = value` nor `[section]`", file, number, shown(line));
    }
    const std::string_view key = trimmed(line.substr(0, equals));
    if (!is_name(key)) fail("{}:{}: {} is no name of an option", file, number, shown(key));
    const std::string name = section + std::string(key);
    const auto [first, is_new] = seen.emplace(name, number);
    if (!is_new) fail("{}:{}: {} was given before, in line {}", file, number, name, first->second);
    entries.push_back({name, parse_value(line.substr(equals + 1), file, number), number});
  }
  return entries;
}

std::string ini_value(const std::string& value) {
  const bool plain =
      trimmed(value).size() == value.size() && comment_at(value) == value.size() && !value.starts_with('"');
  if (plain) return value;
  std::string quoted = "\"";
  for (const char c : value) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace bochner
