// The options of attention mechanisms (layers/attention/options.h) as fields of an experiment's config.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/config/fields.h"
#include "layers/attention/mechanism.h"

namespace bochner {

/// The names of the registry.
std::vector<std::string> attention_names();

/// `attention-blocks`: which blocks of a pretrained model have the --attention, as block_numbers() reads them.
void attention_blocks_field(Fields& f, std::string& blocks);

/// The options of all mechanisms, each name once: its value is that of every mechanism that has such an option. It
/// counts only where one of these is chosen (Field::only).
class MechanismConfig {
 public:
  /// `chosen_by` are the options that name the mechanisms of the program; they stand in its list before these.
  explicit MechanismConfig(std::vector<std::string> chosen_by = {"attention"});

  void fields(Fields& f);
  /// Those of these names, in this order.
  void fields(Fields& f, const std::vector<std::string>& names);
  /// All others.
  void fields_but(Fields& f, const std::vector<std::string>& names);

  /// An Error where no mechanism has such an option, or the value is out of its range.
  MechanismConfig& set(const Setting& setting);
  /// The value, as text.
  std::string text(const std::string& option) const;
  /// The mechanism of that name with its options.
  MechanismOptions chosen(const std::string& mechanism) const;

 private:
  /// Each option as the first mechanism of the registry that has it.
  OptionList list();
  void add(Fields& f, const Option& option) const;

  std::vector<std::string> chosen_by_;
  std::vector<MechanismOptions> all_;
};

}  // namespace bochner
