#include "layers/attention/options.h"

#include "layers/attention/mechanism.h"

namespace bochner {

MechanismOptions::MechanismOptions(const std::string& mechanism, const Settings& settings)
    : MechanismOptions(mechanism_named(mechanism).defaults()) {
  for (const Setting& setting : settings) set(setting);
}

OptionList MechanismOptions::list() {
  OptionList list(name_);
  describe_(values_, list);
  return list;
}

std::vector<std::string> MechanismOptions::names() const {
  MechanismOptions copy = *this;
  return copy.list().names();
}

bool MechanismOptions::has(std::string_view option) const {
  MechanismOptions copy = *this;
  return copy.list().find(option) != nullptr;
}

std::string MechanismOptions::text(std::string_view option) const {
  MechanismOptions copy = *this;
  return copy.list().at(option).text();
}

MechanismOptions& MechanismOptions::set(const Setting& setting) {
  list().at(setting.name).assign(setting.text);
  return *this;
}

MechanismOptions& MechanismOptions::set_known(const Settings& settings) {
  for (const Setting& setting : settings) {
    if (has(setting.name)) set(setting);
  }
  return *this;
}

MechanismOptions& MechanismOptions::set_default_length(int64_t length) {
  if (has("length") && text("length") == "0") set("length", length);
  return *this;
}

}  // namespace bochner
