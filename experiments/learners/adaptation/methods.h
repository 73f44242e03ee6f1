// The ways of fitting a pretrained model to a task: what is added to it or replaced in it, and what is trained. To add
// one, write its line in the list in methods.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/optim/groups.h"
#include "experiments/learners/adaptation/config.h"
#include "layers/models/peft.h"

namespace bochner {

struct Method {
  std::string name;
  /// What is added to the model once its pretrained weights are loaded; empty: nothing.
  std::function<Peft(const AdaptationConfig&)> adds = {};
  /// Then changes the model in another way.
  std::function<void(PretrainedModel&, const AdaptationConfig&, Generator&)> change = {};
  /// Patterns of the parameters that are trained; none: all are.
  std::vector<std::string> trained = {};
  /// The options that it reads, of those that not all methods read: --model.NAME.
  std::vector<std::string> reads = {};
};

/// In the order of --help.
const std::vector<Method>& methods();
std::vector<std::string> method_names();
/// The entry of --model.method.
const Method& method_of(const AdaptationConfig& config);
/// The name of the method that adds this.
std::string_view method_of(const Peft& peft);
/// Which parameters have no weight decay (biases and norms) and which are frozen; this includes a classifier or a
/// pooler that has an update from an adapter's folder.
std::vector<GroupRule> rules_of(const Method& method, const AdaptationConfig& config, PretrainedModel& model);

}  // namespace bochner
