#include "experiments/common/config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "engine/error.h"
#include "engine/nearest.h"
#include "experiments/common/config/ini.h"

namespace bochner {
namespace {

constexpr double kLargest = 1e9;

template <class T>
constexpr bool kIsList = false;
template <class T>
constexpr bool kIsList<std::vector<T>> = true;

std::string_view trimmed_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

template <class T>
T parse_number(const Field& field, std::string_view text, const char* kind) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) fail("{}: '{}' is out of range", field.name(), text);
  if (error != std::errc() || stopped != end) fail("{}: '{}' is not {}", field.name(), text, kind);
  return value;
}

template <class T>
T parse(const Field& field, std::string_view text) {
  if constexpr (std::is_same_v<T, bool>) {
    for (const char* yes : {"true", "yes", "on", "1"}) {
      if (text == yes) return true;
    }
    for (const char* no : {"false", "no", "off", "0"}) {
      if (text == no) return false;
    }
    fail("{}: '{}' is neither true nor false", field.name(), text);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return parse_number<T>(field, text, "a whole number of at least 0");
  } else if constexpr (std::is_integral_v<T>) {
    return parse_number<T>(field, text, "a whole number");
  } else if constexpr (std::is_same_v<T, double>) {
    const auto value = parse_number<double>(field, text, "a number");
    if (!std::isfinite(value)) fail("{}: '{}' is not a finite number", field.name(), text);
    return value;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (text.find_first_of("\n\r") != std::string_view::npos)
      fail("{}: the value has more than one line", field.name());
    return std::string(text);
  } else {
    T values;
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      values.push_back(parse<typename T::value_type>(field, trimmed_blanks(text.substr(0, comma))));
      if (comma + 1 == text.size()) fail("{}: nothing follows the last comma", field.name());
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return values;
  }
}

template <class T>
std::string format_value(const T& value) {
  if constexpr (kIsList<T>) {
    std::string text;
    for (const auto& element : value) {
      if (&element != &value.front()) text += ',';
      text += format_value(element);
    }
    return text;
  } else {
    return fmt::format("{}", value);
  }
}

/// JSON must be UTF-8, but file names may hold any bytes: bytes that are not UTF-8 are replaced.
std::string dumped(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string bound_text(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

}  // namespace

Field::Field(std::string name, Target target, std::string help)
    : name_(std::move(name)), target_(target), help_(std::move(help)) {}

Field& Field::at_least(double bound) {
  lower_ = Bound{bound, true};
  return *this;
}
Field& Field::at_most(double bound) {
  upper_ = Bound{bound, true};
  return *this;
}
Field& Field::above(double bound) {
  lower_ = Bound{bound, false};
  return *this;
}
Field& Field::below(double bound) {
  upper_ = Bound{bound, false};
  return *this;
}
Field& Field::one_of(std::vector<std::string> names) {
  choices_ = std::move(names);
  return *this;
}
Field& Field::warn_above(std::string other, std::string because) {
  limit_ = Limit{std::move(other), std::move(because)};
  return *this;
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
  for (const char c : name_) {
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
  };
  if (!choices_.empty()) return std::holds_alternative<std::string*>(target_) ? "NAME" : "NAME,NAME,...";
  return std::visit(Names{}, target_);
}

std::string Field::rule() const {
  if (!choices_.empty()) return "one of " + listed(choices_);
  std::string lower;
  std::string upper;
  if (lower_) lower = fmt::format("{} {}", lower_->inclusive ? "at least" : "above", bound_text(lower_->value));
  if (upper_) upper = fmt::format("{} {}", upper_->inclusive ? "at most" : "below", bound_text(upper_->value));
  return lower.empty() || upper.empty() ? lower + upper : lower + " and " + upper;
}

template <class T>
void Field::check(const T& value) const {
  if constexpr (kIsList<T>) {
    for (const auto& element : value) check(element);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (choices_.empty() || std::find(choices_.begin(), choices_.end(), value) != choices_.end()) return;
    fail("{}: there is no '{}'{}", name_, value, valid_names(value, choices_));
  } else if constexpr (!std::is_same_v<T, bool>) {
    const auto number = static_cast<double>(value);
    const bool low = lower_ && (lower_->inclusive ? number < lower_->value : !(number > lower_->value));
    const bool high = upper_ && (upper_->inclusive ? number > upper_->value : !(number < upper_->value));
    if (low || high) fail("{}: {} is not {}", name_, value, rule());
    if constexpr (std::is_same_v<T, int> || std::is_same_v<T, int64_t>) {
      if (!upper_ && std::abs(number) > kLargest) {
        fail("{}: {} is more than {:.0f}, the most that a whole number may be here", name_, value, kLargest);
      }
    }
  }
}

void Field::assign(std::string_view text) {
  std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        const std::string_view bare = trimmed_blanks(text);
        const bool is_blank = std::is_same_v<T, std::string> && bare.empty();  // perhaps a separator
        const auto value = parse<T>(*this, is_blank ? text : bare);
        check(value);
        *target = value;
        was_given_ = true;
      },
      target_);
}

void Field::validate() const {
  std::visit([&](const auto* target) { check(*target); }, target_);
}

std::string Field::text() const {
  return std::visit([](const auto* target) { return format_value(*target); }, target_);
}

std::string Field::json() const {
  return std::visit([](const auto* target) { return dumped(nlohmann::ordered_json(*target), -1); }, target_);
}

std::optional<double> Field::number() const {
  return std::visit(
      [](const auto* target) -> std::optional<double> {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(target)>>;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) return static_cast<double>(*target);
        return std::nullopt;
      },
      target_);
}

Field& Fields::operator()(std::string_view name, Field::Target target, std::string help) {
  const std::string full = prefix_ + std::string(name);
  BOCHNER_ASSERT(find(full) == nullptr);
  return fields_.emplace_back(full, target, std::move(help));
}

Field* Fields::find(std::string_view name) {
  return const_cast<Field*>(std::as_const(*this).find(name));  // NOLINT: this object is none of a constant
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
    if (*field.number() <= *other->number()) continue;
    result.push_back(fmt::format("--{}={} is more than --{}={}: {}", field.name(), field.text(), other->name(),
                                 other->text(), field.limit()->because));
  }
  return result;
}

std::string Fields::ini(bool help) const {
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
      if (help) lines += fmt::format("# {}\n", field.help());
      const size_t skipped = section.empty() ? 0 : section.size() + 1;
      lines += fmt::format("{} = {}\n", field.name().substr(skipped), ini_value(field.text()));
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
  return dumped(root, 2);
}

}  // namespace bochner
