// The fields of a config struct, listed once: --help, the command line, INI files, environment variables, the JSON dump
// and validation all come from this list.
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
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/option.h"

namespace bochner {

/// Settings that differ from those of the preset, as (name, value).
using Overrides = std::vector<std::pair<std::string, std::string>>;

/// An option (engine/option.h) of a config struct, with the properties that only programs need.
class Field : public Option {
 public:
  Field(std::string name, Option option) : Option(std::move(option)) { rename(std::move(name)); }

  // Like those of Option, but returning Field&, so that calls can be chained.
  Field& at_least(double bound);
  Field& at_most(double bound);
  Field& above(double bound);
  Field& below(double bound);
  Field& one_of(std::vector<std::string> names);
  /// What --help says about it in this program, if its meaning differs from that in other programs.
  Field& means(std::string help);
  /// `text` is no choice, although a user may take it for one: the error for it then gives `advice`.
  Field& instead(std::string text, std::string advice);
  /// Warns if the value is above that of the option `other`, unless that is 0; `because` names the consequence.
  Field& warn_above(std::string other, std::string because);

  /// Changes nothing where `holds` is false; the command line then refuses it. `condition` says where it is true, such
  /// as `with --table`; --help shows it after the word "only". If a field has several conditions, all of them must
  /// hold.
  Field& only(std::string condition, std::function<bool()> holds);

  /// Belongs to one invocation, so it is not written to config.ini.
  Field& of_invocation();
  /// The same, and it is refused in INI files and in the environment.
  Field& command_line_only();
  /// May differ when a run is resumed, since no step depends on it.
  Field& free_on_resume();

  /// Like Option::assign(), from a preset or from the user.
  void assign(std::string_view text, bool of_preset = false);
  /// Whether it was assigned other than by a preset: on the command line, in a file or in the environment.
  bool was_asked() const { return was_given() && !of_preset_; }

  bool is_command_line_only() const { return command_line_only_; }
  bool is_of_invocation() const { return of_invocation_; }
  bool is_free_on_resume() const { return free_on_resume_ || of_invocation_; }
  /// `BOCHNER_MODEL_LAYERS` for `model.layers`.
  std::string environment_name() const;
  /// `N`, `X`, `NAME`, ... for --help.
  std::string placeholder() const;
  /// The value as JSON.
  std::string json() const;
  struct Limit {
    std::string other;
    std::string because;
  };
  const std::optional<Limit>& limit() const { return limit_; }
  struct Condition {
    std::string text;
    std::function<bool()> holds;
  };
  /// The last one added comes first, so that of a part of the config precedes those of its fields.
  const std::deque<Condition>& conditions() const { return conditions_; }
  /// The first condition that does not hold; null if the field counts.
  const Condition* unmet() const;

 private:
  std::optional<Limit> limit_;
  std::deque<Condition> conditions_;
  std::map<std::string, std::string, std::less<>> advice_;  ///< for texts that are no choice
  bool of_invocation_ = false;
  bool command_line_only_ = false;
  bool free_on_resume_ = false;
  bool of_preset_ = false;
};

/// The list of fields of one config object, which must outlive it and must not be moved.
class Fields {
 public:
  Fields() = default;
  template <class Config>
  static Fields of(Config& config) {
    Fields fields;
    config.fields(fields);
    return fields;
  }

  /// Adds a field; its name is in lower case, with words joined by hyphens. A name given twice is an internal error.
  template <class T>
  Field& operator()(std::string_view name, T& value, std::string help) {
    return add(Option(std::string(name), Option::Target(&value), std::move(help)));
  }
  /// An enum, with the table of its texts, which must be the only one.
  template <class Enum>
  Field& operator()(std::string_view name, Enum& value, const EnumTexts<Enum>& texts, std::string help) {
    return add(Option(std::string(name), value, texts, std::move(help)));
  }
  /// An option of a struct that does not depend on programs.
  Field& add(Option option);
  /// Adds the fields of a part of the config, whose names begin with `name.`.
  template <class Part>
  void group(std::string_view name, Part& part) {
    const std::string outer = prefix_;
    prefix_ += std::string(name) + ".";
    part.fields(*this);
    prefix_ = outer;
  }

  /// Adds a function that sets values that follow from others, or refuses combinations. settle() calls it with these
  /// fields once values are assigned.
  void then(std::function<void(Fields&)> action) { actions_.push_back(std::move(action)); }
  void settle() {
    for (const auto& action : actions_) action(*this);
  }

  /// Field::only for all fields after the first `before`: those of a part of the config.
  void only_behind(size_t before, const std::string& condition, const std::function<bool()>& holds);

  /// Where `asked` is true, the option `name` asks for something that only the options `others`, and those that choose
  /// what is printed, can change: the command line then refuses all other options.
  void alone(std::string name, std::vector<std::string> others, std::function<bool()> asked);
  /// The option of alone() that makes this one change nothing; null if there is none.
  const std::string* idle_beside(const std::string& name) const;

  std::deque<Field>& all() { return fields_; }
  const std::deque<Field>& all() const { return fields_; }
  /// Null if there is none.
  Field* find(std::string_view name);
  const Field* find(std::string_view name) const;
  /// The field of that name; an Error names the nearest one if there is none.
  Field& at(std::string_view name);
  /// at(), within the part of the config whose fields are being added.
  Field& of_part(std::string_view name) { return at(prefix_ + std::string(name)); }
  std::vector<std::string> names() const;

  /// Checks every value.
  void validate() const;
  /// Messages for values that are allowed but probably not intended: those of warn_above().
  std::vector<std::string> warnings() const;
  /// Options that the program computes from others and from the data if they are not given.
  void computed_unless_given(std::vector<std::string> names) { computed_ = std::move(names); }
  /// The values as an INI file: first the options without a dot, then one section for each group, without the fields of
  /// one invocation. Before a run has `begun`, options that are still to be computed are comments, so a run with this
  /// file computes them, too.
  std::string ini(bool begun = true) const;
  /// The values as a JSON object with nested groups; with a `group`, only that group's values.
  std::string json(std::string_view group = {}) const;

 private:
  std::string prefix_;
  std::deque<Field> fields_;
  std::vector<std::function<void(Fields&)>> actions_;
  std::vector<std::string> computed_;
  struct Alone {
    std::string name;
    std::vector<std::string> others;
    std::function<bool()> asked;
  };
  std::vector<Alone> alone_;
};

}  // namespace bochner
