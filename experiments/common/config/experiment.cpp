#include "experiments/common/config/experiment.h"

#include <algorithm>

namespace bochner {

std::vector<std::string> options_of_training(std::vector<std::string> and_these) {
  and_these.insert(and_these.end(), {"seconds", "accumulate", "shards", "sequence-shards", "reduce", "seeds",
                                     "checkpoint-every", "init", "resume", "evaluate", "predict", "bench"});
  return and_these;
}

bool Experiment::takes(const std::string& option) const {
  const auto is_in = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), option) != names.end();
  };
  if (is_in(unused) || is_in(refused) || (!trains && is_in(options_of_training()))) return false;
  return option != "preset" || !resources.presets.empty();
}

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
