// The fields of a config struct, listed once: from this list come --help, the command line, INI files, environment
// variables, the JSON dump and validation.
//
//   struct ModelConfig {
//     int layers = 2;
//     std::string attention = "softmax";
//     std::vector<double> rates = {1e-3};
//
//     void fields(Fields& f) {
//       f("layers", layers, "number of encoder layers").at_least(1);
//       f("attention", attention, "attention mechanism").one_of(attention_names());
//       f("rates", rates, "learning rates to try").above(0);
//     }
//   };
//   struct Config {
//     ModelConfig model;
//     void fields(Fields& f) { f.group("model", model); }        // --model.layers, [model] layers = ...
//   };
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace bochner {

/// One named, typed value of a config struct, and the rules for it.
class Field {
 public:
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*,
                              std::vector<double>*, std::vector<std::string>*>;

  Field(std::string name, Target target, std::string help);

  // Rules for the value, or for each element of a list; assign() and validate() report violations. A whole number
  // without an upper bound is at most 10^9 in absolute value, so that products of a few of them can be computed; a seed
  // is not bounded.
  Field& at_least(double bound);
  Field& at_most(double bound);
  Field& above(double bound);
  Field& below(double bound);
  Field& one_of(std::vector<std::string> names);
  /// Warns if the value is above that of the option `other`; `because` names the consequence.
  Field& warn_above(std::string other, std::string because);

  /// Belongs to one invocation: is not written to config.ini.
  Field& of_invocation();
  /// The same, and is refused in INI files and in the environment.
  Field& command_line_only();
  /// May differ when a run is continued, since results do not depend on it.
  Field& free_on_resume();

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::vector<std::string>& choices() const { return choices_; }
  bool is_flag() const { return std::holds_alternative<bool*>(target_); }
  bool is_command_line_only() const { return command_line_only_; }
  bool is_of_invocation() const { return of_invocation_; }
  /// Whether assign() has given it a value.
  bool was_given() const { return was_given_; }
  bool is_free_on_resume() const { return free_on_resume_ || of_invocation_; }
  /// `BOCHNER_MODEL_LAYERS` for `model.layers`.
  std::string environment_name() const;
  /// `N`, `X`, `NAME`, ... for --help.
  std::string placeholder() const;
  /// `at least 1`, `one of a, b`; empty if every value is allowed.
  std::string rule() const;

  /// Parses and checks `text`. An Error names the field, the text and the rule, and leaves the value unchanged.
  void assign(std::string_view text);
  /// Checks the present value, which code may have set.
  void validate() const;
  /// The value as assign() reads it: the shortest form that reads back to the same bits, with lists joined by commas.
  std::string text() const;
  /// The value as JSON.
  std::string json() const;
  /// The value of a field with one number; none for other fields.
  std::optional<double> number() const;
  struct Limit {
    std::string other;
    std::string because;
  };
  const std::optional<Limit>& limit() const { return limit_; }

 private:
  struct Bound {
    double value;
    bool inclusive;
  };

  template <class T>
  void check(const T& value) const;

  std::string name_;
  Target target_;
  std::string help_;
  std::optional<Bound> lower_;
  std::optional<Bound> upper_;
  std::vector<std::string> choices_;
  std::optional<Limit> limit_;
  bool of_invocation_ = false;
  bool command_line_only_ = false;
  bool free_on_resume_ = false;
  bool was_given_ = false;
};

/// The list of fields of one config object, which must outlive it and must not move.
class Fields {
 public:
  Fields() = default;
  template <class Config>
  static Fields of(Config& config) {
    Fields fields;
    config.fields(fields);
    return fields;
  }

  /// Adds a field; lower case, words joined by hyphens. A name given twice is an internal error.
  Field& operator()(std::string_view name, Field::Target target, std::string help);
  template <class T>
  Field& operator()(std::string_view name, T& value, std::string help) {
    return (*this)(name, Field::Target(&value), std::move(help));
  }
  /// Adds the fields of a part of the config, whose names begin with `name.`.
  template <class Part>
  void group(std::string_view name, Part& part) {
    const std::string outer = prefix_;
    prefix_ += std::string(name) + ".";
    part.fields(*this);
    prefix_ = outer;
  }

  /// Adds a function that sets values that follow from others or refuses combinations. settle() calls it with these
  /// fields once values are assigned.
  void then(std::function<void(const Fields&)> action) { actions_.push_back(std::move(action)); }
  void settle() const {
    for (const auto& action : actions_) action(*this);
  }

  std::deque<Field>& all() { return fields_; }
  const std::deque<Field>& all() const { return fields_; }
  /// Null if there is none.
  Field* find(std::string_view name);
  const Field* find(std::string_view name) const;
  /// The field of that name; an Error names the nearest one if there is none.
  Field& at(std::string_view name);
  std::vector<std::string> names() const;

  /// Checks every value.
  void validate() const;
  /// Messages for values that are allowed but hardly intended: those of warn_above().
  std::vector<std::string> warnings() const;
  /// The values as an INI file: first those without a dot, then one section for each group. Without the fields of one
  /// invocation; with `help`, each line is preceded by its help text as a comment.
  std::string ini(bool help = false) const;
  /// The values as a JSON object, groups nested; with a `group`, that of its values alone.
  std::string json(std::string_view group = {}) const;

 private:
  std::string prefix_;
  std::deque<Field> fields_;
  std::vector<std::function<void(const Fields&)>> actions_;
};

}  // namespace bochner
