#include "experiments/common/program/experiment.h"

#include <algorithm>

namespace bochner {

std::vector<std::string> Experiment::protocols() const {
  std::vector<std::string> names;
  for (const Resource& preset : resources.presets) {
    const std::string protocol(preset.name.substr(0, preset.name.find('.')));
    if (std::find(names.begin(), names.end(), protocol) == names.end()) names.push_back(protocol);
  }
  return names;
}

const Resource* Experiment::preset(std::string_view file_name) const {
  for (const Resource& preset : resources.presets) {
    if (preset.name == file_name) return &preset;
  }
  return nullptr;
}

}  // namespace bochner
