// adapter_config.json, which says what an adapter of PEFT is. read_peft (layers/models/peft.h) reads it.
#pragma once

#include <string>

#include "layers/models/peft.h"

namespace bochner::peft {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kTensors = "adapter_model.safetensors";

/// What is written there: members in the order of the alphabet, as PEFT writes them. An Error names an option of an
/// SNNK layer that has no place in it.
std::string config_text(PretrainedModel& model, const Peft& peft, const std::string& base);

}  // namespace bochner::peft
