// Names of modules and tensors in PEFT, and the matrices of a model that they stand for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layers/models/pretrained.h"

namespace bochner::peft {

constexpr std::string_view kModel = "base_model.model.";  ///< before every name in PEFT's files

/// PEFT's comparison: whether `name` is `end`, or ends in a dot and `end`.
bool ends_as(std::string_view name, std::string_view end);
bool is_any(std::string_view name, const std::vector<std::string>& ends);
/// Whether a tensor belongs to one of these modules: its name, cut off at some dot, ends as one of them.
bool is_within(std::string_view name, const std::vector<std::string>& modules);

/// The name of a module or a tensor in PEFT, given that name or the one in model files.
std::string name_in_peft(const PretrainedModel& model, std::string name);
/// The form in which names of tensors are compared, however they are spelled.
std::string plain_name(const PretrainedModel& model, std::string_view name);

/// A matrix that may have an update: rows of a Linear.
struct Target {
  std::string name;     ///< in files of models
  std::string in_peft;  ///< name_in_peft
  Linear* linear;
  std::string part;  ///< of the Linear; empty: all of it
  int64_t begin, end;
};

std::vector<Target> targets_of(PretrainedModel& model);
/// Whether a module, by its plain_name, is one of them.
bool is_target(PretrainedModel& model, const std::string& module);
/// Whether some model has matrices with such a name: the last part of the name is one of theirs.
bool may_be_target(std::string_view end);
[[noreturn]] void refuse_target(const std::string& where, const std::string& end);
bool is_targeted(const Target& target, const std::vector<std::string>& ends);
/// Targets that a file with these `tensors` names, as presets call them, so that an adapter of a ViT is seen to have
/// the same.
std::vector<std::string> targets_in_files(std::vector<std::string> ends, const std::vector<std::string>& tensors);
/// Targets as PEFT finds them: those of a ViT by the last parts of their names there, or by the whole names where
/// blocks differ.
std::vector<std::string> targets_in_peft(PretrainedModel& model, const std::vector<std::string>& ends);

}  // namespace bochner::peft
