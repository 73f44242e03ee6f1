// Values that a user may set by name. An Option is one such value, with its help text and the rules that it must
// satisfy; it is read from text and written as text. A struct lists its own:
//
//   struct SkyformerOptions {
//     double gamma = 0.1;
//     Kernel kernel = Kernel::gaussian;
//     void options(OptionList& list) {
//       list("gamma", gamma, "added to the diagonal").above(0);
//       list("kernel", kernel, {{"gaussian", Kernel::gaussian}, {"softmax", Kernel::softmax}}, "the kernel");
//     }
//   };
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace bochner {

/// The texts of an enum's values.
template <class Enum>
using EnumTexts = std::vector<std::pair<const char*, Enum>>;

/// The text of a value; empty if it has none.
template <class Enum>
std::string_view text_of(const EnumTexts<Enum>& texts, Enum value) {
  for (const auto& [text, one] : texts) {
    if (one == value) return text;
  }
  return {};
}

class Option {
 public:
  /// A value of an enum, as its index in the table of texts; get() returns the table's size for a value that is not in
  /// the table.
  struct Choice {
    std::function<size_t()> get;
    std::function<void(size_t)> set;
  };
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*,
                              std::vector<double>*, std::vector<std::string>*, Choice>;

  /// The value must outlive the option and must not be moved.
  Option(std::string name, Target target, std::string help);
  template <class Enum, class = std::enable_if_t<std::is_enum_v<Enum>>>
  Option(std::string name, Enum& value, const EnumTexts<Enum>& texts, std::string help)
      : Option(std::move(name), Target(choice(value, texts)), std::move(help)) {
    for (const auto& [text, one] : texts) choices_.emplace_back(text);
  }

  // Rules for the value, or for each element of a list; assign() and validate() report violations. An integer without
  // an upper bound is at most 10^9 in absolute value, so that products of a few of them can be computed; a seed is not
  // bounded.
  Option& at_least(double bound);
  Option& at_most(double bound);
  Option& above(double bound);
  Option& below(double bound);
  /// For a text, or each element of a list of texts. With bounds, a text may also be a number within them. For a flag:
  /// all values that its program takes, for errors and --help.
  Option& one_of(std::vector<std::string> names);
  /// The owner of the option: errors begin with this name.
  Option& of(std::string owner);
  /// Counts only where `holds` is true, which depends on other options of its struct; elsewhere its value changes
  /// nothing.
  Option& counts_where(std::function<bool()> holds);
  bool counts() const { return !counts_ || counts_(); }
  /// Whether counts() may be false.
  bool is_conditional() const { return counts_ != nullptr; }

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  void set_help(std::string help) { help_ = std::move(help); }
  const std::vector<std::string>& choices() const { return choices_; }
  const Target& target() const { return target_; }
  bool is_flag() const { return std::holds_alternative<bool*>(target_); }
  /// Whether assign() has given it a value.
  bool was_given() const { return was_given_; }
  /// `at least 1`, `one of a, b`, `one of a, b, or a number at least 1`; empty if every value is allowed.
  std::string rule() const;

  /// Parses and checks `text`. An Error names the option, the text and the rule, and leaves the value unchanged.
  void assign(std::string_view text);
  /// Checks the current value, which code may have set.
  void validate() const;
  /// The value as assign() reads it: the shortest form that reads back to the same bits, with lists joined by commas.
  std::string text() const;
  /// The value of a numeric option; nullopt for other options.
  std::optional<double> number() const;

 protected:
  void rename(std::string name) { name_ = std::move(name); }

 private:
  struct Bound {
    double value;
    bool inclusive;
  };

  template <class Enum>
  static Choice choice(Enum& value, const EnumTexts<Enum>& texts) {
    std::vector<Enum> values;
    for (const auto& [text, one] : texts) values.push_back(one);
    return {[&value, values] {
              size_t place = 0;
              while (place < values.size() && values[place] != value) ++place;
              return place;
            },
            [&value, values](size_t place) { value = values[place]; }};
  }
  /// `skyformer: gamma`, or only the name.
  std::string label() const { return owner_.empty() ? name_ : owner_ + ": " + name_; }
  /// `at least 1`.
  std::string bounds() const;
  /// `, or a number at least 1`, if texts may be numbers.
  std::string or_number() const;
  bool is_within_bounds(double number) const;
  template <class T>
  T parsed(std::string_view text) const;
  template <class T>
  void check(const T& value) const;

  std::string name_;
  Target target_;
  std::string help_;
  std::string owner_;
  std::optional<Bound> lower_;
  std::optional<Bound> upper_;
  std::vector<std::string> choices_;
  std::function<bool()> counts_;
  bool was_given_ = false;
};

/// The options of one struct, which must outlive the list and must not be moved.
class OptionList {
 public:
  OptionList() = default;
  /// Errors begin with `owner`.
  explicit OptionList(std::string owner) : owner_(std::move(owner)) {}

  /// Adds an option; its name is in lower case, with words joined by hyphens. A name given twice is an internal error.
  template <class T>
  Option& operator()(std::string_view name, T& value, std::string help) {
    return add(Option(std::string(name), Option::Target(&value), std::move(help)));
  }
  /// An enum, with the table of its texts, which must be the only one.
  template <class Enum>
  Option& operator()(std::string_view name, Enum& value, const EnumTexts<Enum>& texts, std::string help) {
    return add(Option(std::string(name), value, texts, std::move(help)));
  }
  Option& add(Option option);

  auto begin() { return options_.begin(); }
  auto end() { return options_.end(); }
  size_t size() const { return options_.size(); }
  /// Null if there is none.
  Option* find(std::string_view name);
  /// The option of that name; an Error names the nearest one if there is none.
  Option& at(std::string_view name);
  std::vector<std::string> names() const;
  /// Checks every value.
  void validate() const;

 private:
  std::string owner_;
  std::deque<Option> options_;
};

}  // namespace bochner
