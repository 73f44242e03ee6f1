#include "experiments/common/config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "engine/error.h"
#include "engine/io/json_file.h"
#include "engine/io/lines.h"
#include "engine/nearest.h"
#include "experiments/common/config/ini.h"

namespace bochner {
Field& Field::at_least(double bound) {
  Option::at_least(bound);
  return *this;
}
Field& Field::at_most(double bound) {
  Option::at_most(bound);
  return *this;
}
Field& Field::above(double bound) {
  Option::above(bound);
  return *this;
}
Field& Field::below(double bound) {
  Option::below(bound);
  return *this;
}
Field& Field::one_of(std::vector<std::string> names) {
  Option::one_of(std::move(names));
  return *this;
}
Field& Field::means(std::string help) {
  set_help(std::move(help));
  return *this;
}
Field& Field::instead(std::string text, std::string advice) {
  advice_.emplace(std::move(text), std::move(advice));
  return *this;
}

void Field::assign(std::string_view text, bool of_preset) {
  const auto found = advice_.find(trimmed(text));
  if (found != advice_.end()) fail("{}: '{}' {}", name(), found->first, found->second);
  Option::assign(text);
  of_preset_ = of_preset;
}

Field& Field::warn_above(std::string other, std::string because) {
  limit_ = Limit{std::move(other), std::move(because)};
  return *this;
}
Field& Field::only(std::string condition, std::function<bool()> holds) {
  conditions_.push_front({std::move(condition), std::move(holds)});
  return *this;
}
const Field::Condition* Field::unmet() const {
  const auto found = std::find_if(conditions_.begin(), conditions_.end(), [](const auto& c) { return !c.holds(); });
  return found == conditions_.end() ? nullptr : &*found;
}
Field& Field::of_invocation() {
  of_invocation_ = true;
  return *this;
}
Field& Field::command_line_only() {
  command_line_only_ = true;
  return of_invocation();
}
Field& Field::free_on_resume() {
  free_on_resume_ = true;
  return *this;
}

std::string Field::environment_name() const {
  std::string result = "BOCHNER_";
  for (const char c : name()) {
    result += c == '.' || c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return result;
}

std::string Field::placeholder() const {
  struct Names {
    std::string operator()(const bool*) const { return "BOOL"; }
    std::string operator()(const int*) const { return "N"; }
    std::string operator()(const int64_t*) const { return "N"; }
    std::string operator()(const uint64_t*) const { return "N"; }
    std::string operator()(const double*) const { return "X"; }
    std::string operator()(const std::string*) const { return "TEXT"; }
    std::string operator()(const std::vector<int64_t>*) const { return "N,N,..."; }
    std::string operator()(const std::vector<double>*) const { return "X,X,..."; }
    std::string operator()(const std::vector<std::string>*) const { return "TEXT,TEXT,..."; }
    std::string operator()(const Choice&) const { return "NAME"; }
  };
  if (!choices().empty()) {
    return std::holds_alternative<std::vector<std::string>*>(target()) ? "NAME,NAME,..." : "NAME";
  }
  return std::visit(Names{}, target());
}

std::string Field::json() const {
  return std::visit(
      [&](const auto& target) {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(target)>>) {
          return json_text(nlohmann::ordered_json(*target));
        } else {
          return json_text(nlohmann::ordered_json(text()));
        }
      },
      target());
}

Field& Fields::add(Option option) {
  std::string full = prefix_ + option.name();
  BOCHNER_ASSERT(find(full) == nullptr);
  option.of("");
  return fields_.emplace_back(std::move(full), std::move(option));
}

void Fields::only_behind(size_t before, const std::string& condition, const std::function<bool()>& holds) {
  for (size_t i = before; i < fields_.size(); ++i) fields_[i].only(condition, holds);
}

void Fields::alone(std::string name, std::vector<std::string> others, std::function<bool()> asked) {
  others.insert(others.end(), {name, "quiet", "log-level", "help", "version", "dump-config"});
  alone_.push_back({std::move(name), std::move(others), std::move(asked)});
}

const std::string* Fields::idle_beside(const std::string& name) const {
  for (const Alone& one : alone_) {
    if (one.asked() && std::find(one.others.begin(), one.others.end(), name) == one.others.end()) return &one.name;
  }
  return nullptr;
}

Field* Fields::find(std::string_view name) {
  return const_cast<Field*>(std::as_const(*this).find(name));  // NOLINT: this object is not constant
}

Field& Fields::at(std::string_view name) {
  Field* const field = find(name);
  if (field == nullptr) fail("there is no option '{}'{}", name, valid_names(name, names()));
  return *field;
}

const Field* Fields::find(std::string_view name) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name() == name; });
  return found == fields_.end() ? nullptr : &*found;
}

std::vector<std::string> Fields::names() const {
  std::vector<std::string> result;
  for (const Field& field : fields_) result.push_back(field.name());
  return result;
}

void Fields::validate() const {
  for (const Field& field : fields_) field.validate();
}

std::vector<std::string> Fields::warnings() const {
  std::vector<std::string> result;
  for (const Field& field : fields_) {
    if (!field.limit()) continue;
    const Field* const other = find(field.limit()->other);
    BOCHNER_ASSERT(other != nullptr && field.number() && other->number());
    if (*field.number() <= *other->number() || *other->number() == 0) continue;
    result.push_back(fmt::format("--{}={} is more than --{}={}: {}", field.name(), field.text(), other->name(),
                                 other->text(), field.limit()->because));
  }
  return result;
}

std::string Fields::ini(bool begun) const {
  // A section ends only where the next one begins, so names without a dot come first; groups keep their order.
  std::vector<std::string> sections = {""};
  const auto section_of = [](const Field& field) {
    const size_t dot = field.name().rfind('.');
    return dot == std::string::npos ? std::string() : field.name().substr(0, dot);
  };
  for (const Field& field : fields_) {
    if (std::find(sections.begin(), sections.end(), section_of(field)) == sections.end()) {
      sections.push_back(section_of(field));
    }
  }
  std::string text;
  for (const std::string& section : sections) {
    std::string lines;
    for (const Field& field : fields_) {
      if (section_of(field) != section || field.is_of_invocation()) continue;
      const std::string name = field.name().substr(section.empty() ? 0 : section.size() + 1);
      const bool computed = std::find(computed_.begin(), computed_.end(), field.name()) != computed_.end();
      lines += !begun && computed && !field.was_given() ? fmt::format("# {}: computed when the run begins\n", name)
                                                        : fmt::format("{} = {}\n", name, ini_value(field.text()));
    }
    if (lines.empty()) continue;
    if (!section.empty()) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    text += lines;
  }
  return text;
}

std::string Fields::json(std::string_view group) const {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  for (const Field& field : fields_) {
    if (field.is_of_invocation()) continue;
    nlohmann::ordered_json* place = &root;
    std::string_view rest = field.name();
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      place = &(*place)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*place)[std::string(rest)] = nlohmann::ordered_json::parse(field.json());
  }
  if (!group.empty()) root = root.value(std::string(group), nlohmann::ordered_json::object());
  return json_text(root, 2);
}

}  // namespace bochner
