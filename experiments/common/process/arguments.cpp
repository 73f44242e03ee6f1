#include "experiments/common/process/arguments.h"

#include <algorithm>
#include <iterator>

#include "engine/error.h"

namespace bochner {
namespace {

/// Calls visit(value) for each `--name=VALUE` and `--name VALUE`, and returns all other arguments.
template <class Visit>
Arguments others(const Arguments& arguments, const std::string& name, const Visit& visit) {
  const std::string option = fmt::format("--{}", name);
  Arguments kept;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(option + "=")) {
      visit(arguments[i].substr(option.size() + 1));
    } else if (arguments[i] == option && i + 1 < arguments.size()) {
      visit(arguments[++i]);
    } else {
      kept.push_back(arguments[i]);
    }
  }
  return kept;
}

bool is_flag(const std::string& argument, const std::string& name) {
  return argument == fmt::format("--{}", name) || argument == fmt::format("--{}=true", name);
}

std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text(1, '\'');
  for (const char c : word) {
    if (c == '\'') text.append("'\\'");
    text.push_back(c);
  }
  text.push_back('\'');
  return text;
}

}  // namespace

std::optional<std::string> argument(const Arguments& arguments, const std::string& name) {
  std::optional<std::string> last;
  others(arguments, name, [&](const std::string& value) { last = value; });
  return last;
}

bool has_flag(const Arguments& arguments, const std::string& name) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& word) { return is_flag(word, name); });
}

Arguments without_argument(const Arguments& arguments, const std::string& name) {
  return others(arguments, name, [](const std::string&) {});
}

Arguments without_flag(const Arguments& arguments, const std::string& name) {
  Arguments kept;
  std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(kept),
               [&](const std::string& word) { return !is_flag(word, name); });
  return kept;
}

Arguments with_last_alone(const Arguments& arguments, const std::string& name) {
  std::vector<std::string> values;
  Arguments kept = others(arguments, name, [&](const std::string& value) { values.push_back(value); });
  if (values.size() < 2) return arguments;
  kept.push_back(fmt::format("--{}={}", name, values.back()));
  return kept;
}

std::vector<std::string> compared(const Arguments& arguments, const std::string& option) {
  const std::string all = argument(arguments, option).value_or("");
  std::vector<std::string> names;
  if (all.find(',') == std::string::npos) return names;
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find(',', begin), all.size());
    const std::string name = all.substr(begin, end - begin);
    if (name.empty()) fail("--{}: '{}' has a comma without a name beside it", option, all);
    if (std::find(names.begin(), names.end(), name) != names.end()) fail("--{}: '{}' stands twice", option, name);
    names.push_back(name);
    begin = end + 1;
  }
  return names;
}

std::vector<Part> parts_by(const std::vector<Part>& parts, const std::string& option,
                           const std::vector<std::string>& values) {
  if (values.empty()) return parts;
  std::vector<Part> all;
  for (const Part& part : parts) {
    for (const std::string& value : values) {
      all.push_back({part.folder / value, without_argument(part.arguments, option)});
      all.back().arguments.push_back(fmt::format("--{}={}", option, value));
    }
  }
  return all;
}

Arguments with_list(const Arguments& arguments, const std::string& name) {
  Arguments joined;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != fmt::format("--{}", name)) {
      joined.push_back(arguments[i]);
      continue;
    }
    std::string list;
    while (i + 1 < arguments.size() && !arguments[i + 1].starts_with("-")) {
      list += (list.empty() ? "" : ",") + arguments[++i];
    }
    joined.push_back(list.empty() ? arguments[i] : fmt::format("--{}={}", name, list));
  }
  return joined;
}

std::string command_text(const std::string& program, const Arguments& arguments) {
  std::string text = quoted(program);
  for (const std::string& word : arguments) text.append(" ").append(quoted(word));
  return text;
}

}  // namespace bochner
