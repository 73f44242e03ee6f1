#include "engine/option.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/error.h"
#include "engine/io/lines.h"
#include "engine/nearest.h"

namespace bochner {
namespace {

constexpr double kLargest = 1e9;

template <class T>
constexpr bool kIsList = false;
template <class T>
constexpr bool kIsList<std::vector<T>> = true;

template <class T>
T parsed_number(const std::string& label, std::string_view text, const char* kind) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) fail("{}: '{}' is out of range", label, text);
  if (error != std::errc() || stopped != end) fail("{}: '{}' is not {}", label, text, kind);
  return value;
}

template <class T>
std::string text_of(const T& value) {
  if constexpr (kIsList<T>) {
    std::string text;
    for (const auto& element : value) {
      if (&element != &value.front()) text += ',';
      text += text_of(element);
    }
    return text;
  } else {
    return fmt::format("{}", value);
  }
}

std::string bound_text(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

}  // namespace

Option::Option(std::string name, Target target, std::string help)
    : name_(std::move(name)), target_(std::move(target)), help_(std::move(help)) {}

Option& Option::at_least(double bound) {
  lower_ = Bound{bound, true};
  return *this;
}
Option& Option::counts_where(std::function<bool()> holds) {
  counts_ = std::move(holds);
  return *this;
}
Option& Option::at_most(double bound) {
  upper_ = Bound{bound, true};
  return *this;
}
Option& Option::above(double bound) {
  lower_ = Bound{bound, false};
  return *this;
}
Option& Option::below(double bound) {
  upper_ = Bound{bound, false};
  return *this;
}
Option& Option::one_of(std::vector<std::string> names) {
  choices_ = std::move(names);
  return *this;
}
Option& Option::of(std::string owner) {
  owner_ = std::move(owner);
  return *this;
}

std::string Option::bounds() const {
  std::string lower;
  std::string upper;
  if (lower_) lower = fmt::format("{} {}", lower_->inclusive ? "at least" : "above", bound_text(lower_->value));
  if (upper_) upper = fmt::format("{} {}", upper_->inclusive ? "at most" : "below", bound_text(upper_->value));
  return lower.empty() || upper.empty() ? lower + upper : lower + " and " + upper;
}

bool Option::is_within_bounds(double number) const {
  const bool low = lower_ && !(lower_->inclusive ? number >= lower_->value : number > lower_->value);
  const bool high = upper_ && !(upper_->inclusive ? number <= upper_->value : number < upper_->value);
  return !low && !high;
}

std::string Option::or_number() const { return lower_ || upper_ ? ", or a number " + bounds() : ""; }

std::string Option::rule() const { return choices_.empty() ? bounds() : "one of " + listed(choices_) + or_number(); }

template <class T>
T Option::parsed(std::string_view text) const {
  if constexpr (std::is_same_v<T, bool>) {
    for (const char* yes : {"true", "yes", "on", "1"}) {
      if (text == yes) return true;
    }
    for (const char* no : {"false", "no", "off", "0"}) {
      if (text == no) return false;
    }
    if (!choices_.empty()) fail("{}: there is no '{}'{}", label(), text, valid_names(text, choices_));
    fail("{}: '{}' is neither true nor false", label(), text);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return parsed_number<T>(label(), text, "a whole number of at least 0");
  } else if constexpr (std::is_integral_v<T>) {
    return parsed_number<T>(label(), text, "a whole number");
  } else if constexpr (std::is_same_v<T, double>) {
    const auto value = parsed_number<double>(label(), text, "a number");
    if (!std::isfinite(value)) fail("{}: '{}' is not a finite number", label(), text);
    return value;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (text.find_first_of("\n\r") != std::string_view::npos) fail("{}: the value has more than one line", label());
    return std::string(text);
  } else {
    T values;
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      values.push_back(parsed<typename T::value_type>(trimmed(text.substr(0, comma))));
      if (comma + 1 == text.size()) fail("{}: nothing follows the last comma", label());
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return values;
  }
}

template <class T>
void Option::check(const T& value) const {
  if constexpr (kIsList<T>) {
    for (const auto& element : value) check(element);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (choices_.empty() || std::find(choices_.begin(), choices_.end(), value) != choices_.end()) return;
    const char* const end = value.data() + value.size();
    double number = 0;
    const auto [stopped, error] = std::from_chars(value.data(), end, number);
    const bool is_number = (lower_ || upper_) && error == std::errc() && stopped == end;
    if (is_number && is_within_bounds(number)) return;
    fail("{}: there is no '{}'{}{}", label(), value, valid_names(value, choices_), or_number());
  } else if constexpr (!std::is_same_v<T, bool>) {
    const auto number = static_cast<double>(value);
    if (!is_within_bounds(number)) fail("{}: {} is not {}", label(), value, rule());
    if constexpr (std::is_same_v<T, int> || std::is_same_v<T, int64_t>) {
      if (!upper_ && std::abs(number) > kLargest) {
        fail("{}: {} is more than {:.0f}, the most that a whole number may be here", label(), value, kLargest);
      }
    }
  }
}

void Option::assign(std::string_view text) {
  const std::string_view bare = trimmed(text);
  if (const Choice* const choice = std::get_if<Choice>(&target_)) {
    check(std::string(bare));
    choice->set(static_cast<size_t>(std::find(choices_.begin(), choices_.end(), bare) - choices_.begin()));
  } else {
    std::visit(
        [&](const auto& target) {
          if constexpr (std::is_pointer_v<std::decay_t<decltype(target)>>) {
            using T = std::remove_pointer_t<std::decay_t<decltype(target)>>;
            const bool is_blank = std::is_same_v<T, std::string> && bare.empty();  // perhaps a separator
            const auto value = parsed<T>(is_blank ? text : bare);
            check(value);
            *target = value;
          }
        },
        target_);
  }
  was_given_ = true;
}

void Option::validate() const {
  std::visit(
      [&](const auto& target) {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(target)>>) {
          check(*target);
        } else {
          if (target.get() >= choices_.size()) fail("{}: a value of its type that is not {}", label(), rule());
        }
      },
      target_);
}

std::string Option::text() const {
  return std::visit(
      [&](const auto& target) {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(target)>>) {
          return text_of(*target);
        } else {
          return choices_.at(target.get());
        }
      },
      target_);
}

std::optional<double> Option::number() const {
  return std::visit(
      [](const auto& target) -> std::optional<double> {
        using T = std::remove_pointer_t<std::decay_t<decltype(target)>>;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) return static_cast<double>(*target);
        return std::nullopt;
      },
      target_);
}

Option& OptionList::add(Option option) {
  BOCHNER_ASSERT(find(option.name()) == nullptr);
  return options_.emplace_back(std::move(option)).of(owner_);
}

Option* OptionList::find(std::string_view name) {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name() == name; });
  return found == options_.end() ? nullptr : &*found;
}

Option& OptionList::at(std::string_view name) {
  Option* const option = find(name);
  if (option == nullptr) {
    fail("{}there is no option '{}'{}", owner_.empty() ? "" : owner_ + ": ", name, valid_names(name, names()));
  }
  return *option;
}

std::vector<std::string> OptionList::names() const {
  std::vector<std::string> result;
  for (const Option& option : options_) result.push_back(option.name());
  return result;
}

void OptionList::validate() const {
  for (const Option& option : options_) option.validate();
}

}  // namespace bochner
