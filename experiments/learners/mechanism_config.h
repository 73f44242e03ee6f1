// The options of attention mechanisms (layers/attention/options.h) as fields of an experiment's config.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/config/fields.h"
#include "layers/attention/mechanism.h"

namespace bochner {

/// The names in the registry.
std::vector<std::string> attention_names();

/// `attention-blocks`: which blocks of a pretrained model use --attention, in the form that block_numbers() reads.
void attention_blocks_field(Fields& f, std::string& blocks);

/// The options of all mechanisms, each name once: its value applies to every mechanism that has such an option. It
/// counts only where one of these mechanisms is chosen (Field::only).
class MechanismConfig {
 public:
  /// `chosen_by`: the options of the program that name its mechanisms; they come before these in its list.
  explicit MechanismConfig(std::vector<std::string> chosen_by = {"attention"});

  void fields(Fields& f);
  /// Only the options with these names, in this order.
  void fields(Fields& f, const std::vector<std::string>& names);
  /// All options but these.
  void fields_but(Fields& f, const std::vector<std::string>& names);

  /// An Error if no mechanism has such an option, or the value is out of its range.
  MechanismConfig& set(const Setting& setting);
  /// The value as text.
  std::string text(const std::string& option) const;
  /// The mechanism of that name, with its options.
  MechanismOptions chosen(const std::string& mechanism) const;

 private:
  /// Each option, from the first mechanism in the registry that has it.
  OptionList list();
  void add(Fields& f, const Option& option) const;

  std::vector<std::string> chosen_by_;
  std::vector<MechanismOptions> all_;
};

}  // namespace bochner
