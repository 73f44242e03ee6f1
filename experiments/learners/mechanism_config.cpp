#include "experiments/learners/mechanism_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

namespace bochner {

std::vector<std::string> attention_names() {
  std::vector<std::string> names;
  for (const MechanismInfo& info : mechanisms()) names.push_back(info.name);
  return names;
}

namespace {

/// `with --attention=bigbird or longformer`: those that have the option.
std::string condition_of(const std::string& option, const std::string& chosen_by) {
  constexpr size_t kListed = 4;
  std::vector<std::string> names;
  for (const MechanismInfo& info : mechanisms()) {
    if (info.defaults().has(option)) names.push_back(info.name);
  }
  if (names.size() > kListed)
    return fmt::format("with a value of --{} that has it, such as {}", chosen_by, names.front());
  return fmt::format("with --{}={}", chosen_by, fmt::join(names, " or "));
}

/// Whether a mechanism's other options can make this one unused.
bool may_be_idle(const std::string& option) {
  return std::ranges::any_of(mechanisms(), [&](const MechanismInfo& info) {
    MechanismOptions options = info.defaults();
    return options.has(option) && options.list().at(option).is_conditional();
  });
}

/// Whether one of the mechanisms that the fields name has the option and satisfies `holds`.
bool is_read(const std::string& option, const std::vector<const Field*>& fields,
             const std::function<bool(const std::string& mechanism)>& holds) {
  for (const Field* field : fields) {
    std::istringstream names(field->text());
    for (std::string name; std::getline(names, name, ',');) {
      if (mechanism_named(name).defaults().has(option) && holds(name)) return true;
    }
  }
  return false;
}

}  // namespace

void attention_blocks_field(Fields& f, std::string& blocks) {
  f("attention-blocks", blocks,
    "blocks that have the --attention, such as 8-11 or 0,2; the others have softmax; empty: all")
      .only("with another --attention than softmax",
            [&attention = f.at("attention")] { return attention.text() != "softmax"; });
}

MechanismConfig::MechanismConfig(std::vector<std::string> chosen_by) : chosen_by_(std::move(chosen_by)) {
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
  for (const std::string& name : names) add(f, all.at(name));
}

void MechanismConfig::fields_but(Fields& f, const std::vector<std::string>& names) {
  for (const Option& option : list()) {
    if (std::find(names.begin(), names.end(), option.name()) == names.end()) add(f, option);
  }
}

void MechanismConfig::add(Fields& f, const Option& option) const {
  std::vector<const Field*> choosers;
  for (const std::string& name : chosen_by_) choosers.push_back(&f.at(name));
  const auto read_where = [name = option.name(), choosers](const auto& holds) {
    return [=] { return is_read(name, choosers, holds); };
  };
  const auto counts = [this, name = option.name()](const std::string& mechanism) {
    MechanismOptions beside = chosen(mechanism);
    return beside.list().at(name).counts();
  };
  Field& field = f.add(option);
  if (may_be_idle(option.name())) field.only("where the mechanism's other options leave it in use", read_where(counts));
  field.only(condition_of(option.name(), chosen_by_.front()), read_where([](const std::string&) { return true; }));
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
