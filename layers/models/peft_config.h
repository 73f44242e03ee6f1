// adapter_config.json, which describes an adapter of PEFT. read_peft (layers/models/peft.h) reads it.
#pragma once

#include <string>

#include "layers/models/peft.h"

namespace bochner::peft {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kTensors = "adapter_model.safetensors";

/// The text of that file, its members in alphabetical order, as PEFT writes them. An Error names an option of an SNNK
/// layer that the file has no place for.
std::string config_text(PretrainedModel& model, const Peft& peft, const std::string& base);

}  // namespace bochner::peft
