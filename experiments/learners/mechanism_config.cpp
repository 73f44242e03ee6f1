#include "experiments/learners/mechanism_config.h"

#include <algorithm>

namespace bochner {

std::vector<std::string> attention_names() {
  std::vector<std::string> names;
  for (const MechanismInfo& info : mechanisms()) names.push_back(info.name);
  return names;
}

void attention_blocks_field(Fields& f, std::string& blocks) {
  f("attention-blocks", blocks,
    "blocks that have the --attention, such as 8-11 or 0,2; the others have softmax; empty: all");
}

MechanismConfig::MechanismConfig() {
  for (const MechanismInfo& info : mechanisms()) all_.push_back(info.defaults());
}

OptionList MechanismConfig::list() {
  OptionList all;
  for (MechanismOptions& options : all_) {
    for (const Option& option : options.list()) {
      if (all.find(option.name()) == nullptr) all.add(option);
    }
  }
  return all;
}

void MechanismConfig::fields(Fields& f) { fields_but(f, {}); }

void MechanismConfig::fields(Fields& f, const std::vector<std::string>& names) {
  OptionList all = list();
  for (const std::string& name : names) f.add(all.at(name));
}

void MechanismConfig::fields_but(Fields& f, const std::vector<std::string>& names) {
  for (const Option& option : list()) {
    if (std::find(names.begin(), names.end(), option.name()) == names.end()) f.add(option);
  }
}

MechanismConfig& MechanismConfig::set(const Setting& setting) {
  list().at(setting.name).assign(setting.text);
  return *this;
}

std::string MechanismConfig::text(const std::string& option) const {
  MechanismConfig copy = *this;
  return copy.list().at(option).text();
}

MechanismOptions MechanismConfig::chosen(const std::string& mechanism) const {
  MechanismConfig copy = *this;
  OptionList all = copy.list();
  MechanismOptions options(mechanism);
  for (Option& option : options.list()) option.assign(all.at(option.name()).text());
  return options;
}

}  // namespace bochner
