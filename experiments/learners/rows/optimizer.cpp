#include "experiments/learners/rows/optimizer.h"

#include <algorithm>

namespace bochner::classifier {
namespace {

constexpr const char* kPrefix = "optimizer.";

}  // namespace

NetworkOptimizer::NetworkOptimizer(const std::vector<Parameter*>& parameters, const std::vector<Parameter*>& snnk,
                                   const OptimConfig& optim) {
  std::vector<Parameter*> others;
  for (Parameter* parameter : parameters) {
    if (std::find(snnk.begin(), snnk.end(), parameter) == snnk.end()) others.push_back(parameter);
  }
  const AdamOptions options{.weight_decay = optim.weight_decay};
  const auto add = [&](const std::vector<Parameter*>& group, double factor) {
    if (group.empty()) return;
    groups_.push_back(
        {optim.optimizer == "adam" ? std::make_unique<Adam>(group, options) : std::make_unique<AdamW>(group, options),
         factor});
  };
  add(others, 1);
  add(snnk, optim.snnk_rate);
}

void NetworkOptimizer::step(double rate) {
  for (const Group& group : groups_) group.adam->step(rate * group.factor);
}

void NetworkOptimizer::clear_gradients() {
  for (const Group& group : groups_) group.adam->clear_gradients();
}

void NetworkOptimizer::save(State& state) const {
  for (const Group& group : groups_) {
    for (const auto& [name, tensor] : group.adam->state()) state.tensors[kPrefix + name] = tensor;
  }
}

void NetworkOptimizer::load(const State& state) {
  std::map<std::string, Tensor> moments;
  const std::string prefix = kPrefix;
  for (const auto& [name, tensor] : state.tensors) {
    if (name.starts_with(prefix)) moments[name.substr(prefix.size())] = tensor;
  }
  for (const Group& group : groups_) group.adam->load_state(moments);
}

}  // namespace bochner::classifier
