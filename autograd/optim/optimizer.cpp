#include "autograd/optim/optimizer.h"

#include <set>

#include "engine/error.h"

namespace bochner {
namespace {

void require(bool holds, const char* option, double value, const char* range) {
  if (!holds) fail("optimizer: {} {} must be {}", option, value, range);
}

std::vector<Tensor> gradients_of(const std::vector<Parameter*>& parameters) {
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : parameters) {
    if (parameter->grad.defined()) gradients.push_back(parameter->grad);
  }
  return gradients;
}

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups, std::vector<std::string> moments)
    : names_(std::move(moments)) {
  std::set<const Parameter*> seen;
  for (ParameterGroup& group : groups) {
    GroupState state{std::move(group), {}, {}};
    for (const Parameter* parameter : state.group.parameters) {
      if (!seen.insert(parameter).second) fail("optimizer: the parameter '{}' is given twice", parameter->name);
      std::vector<Tensor> own;
      for (size_t i = 0; i < names_.size(); ++i) {
        own.push_back(Tensor::zeros(parameter->shape(), parameter->value.dtype(), parameter->value.device()));
      }
      state.moments.push_back(own);
    }
    groups_.push_back(std::move(state));
  }
}

void Optimizer::step(double rate, const GradientClip& clip) {
  prepare(rate);
  apply(clip);
}

void Optimizer::prepare(double rate) {
  ++steps_;
  for (GroupState& state : groups_) {
    if (state.group.parameters.empty()) continue;
    const Tensor now = numbers(rate * state.group.rate, state.group.weight_decay, steps_);
    if (!state.numbers.defined()) {
      state.numbers = Tensor::empty(now.shape(), now.dtype(), state.group.parameters.front()->value.device());
    }
    state.numbers.copy_(now);
  }
}

void Optimizer::apply(const GradientClip& clip) {
  for (const GroupState& state : groups_) {
    std::vector<Slot> slots;
    for (size_t i = 0; i < state.group.parameters.size(); ++i) {
      const Parameter* parameter = state.group.parameters[i];
      if (parameter->trainable && parameter->grad.defined()) slots.push_back({parameter, &state.moments[i]});
    }
    if (!slots.empty()) update(slots, state.numbers, clip);
  }
}

void Optimizer::clear_gradients() {
  for (const GroupState& state : groups_) {
    for (Parameter* parameter : state.group.parameters) parameter->grad = Tensor();
  }
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> result{{"steps", Tensor::from<int64_t>({steps_}, {1})}};
  for (const GroupState& state : groups_) {
    for (size_t i = 0; i < state.moments.size(); ++i) {
      for (size_t k = 0; k < names_.size(); ++k) {
        const std::string name = state.group.parameters[i]->name + "." + names_[k];
        if (!result.emplace(name, state.moments[i][k]).second) {
          fail("optimizer state: two parameters are called '{}'; give them names of their own",
               state.group.parameters[i]->name);
        }
      }
    }
  }
  return result;
}

void Optimizer::load_state(const std::map<std::string, Tensor>& state) {
  const std::map<std::string, Tensor> mine = this->state();
  for (const auto& [name, tensor] : mine) {
    const auto found = state.find(name);
    if (found == state.end()) fail("optimizer state: '{}' is missing; is this another optimizer's checkpoint?", name);
    if (!(found->second.shape() == tensor.shape())) {
      fail("optimizer state: '{}' has shape {}, not {}", name, found->second.shape().str(), tensor.shape().str());
    }
  }
  const Tensor& steps = state.at("steps");
  const int64_t count = steps.dtype() == DType::i64 ? steps.to_vector<int64_t>()[0] : -1;
  if (count < 0) fail("optimizer state: 'steps' is no number of steps; the checkpoint is damaged");
  for (const auto& [name, tensor] : mine) tensor.copy_(state.at(name));
  steps_ = count;
}

Adam::Adam(std::vector<ParameterGroup> groups, AdamOptions options)
    : Optimizer(std::move(groups), {"first_moment", "second_moment"}), options_(options) {
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1", options.beta1, "at least 0 and below 1");
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", options.beta2, "at least 0 and below 1");
  require(options.eps >= 0, "eps", options.eps, "at least 0");
  require(options.weight_decay >= 0, "weight decay", options.weight_decay, "at least 0");
}

Tensor Adam::numbers(double rate, std::optional<double> weight_decay, int64_t steps) const {
  return numbers_of(AdamStep{rate, options_.beta1, options_.beta2, options_.eps,
                             weight_decay.value_or(options_.weight_decay), decoupled_, steps});
}

void Adam::update(const std::vector<Slot>& slots, const Tensor& numbers, const GradientClip& clip) {
  std::vector<AdamTensors> tensors;
  for (const auto& [parameter, moments] : slots)
    tensors.push_back({parameter->value, parameter->grad, (*moments)[0], (*moments)[1]});
  adam_step(numbers, tensors, clip);
}

AdamW::AdamW(std::vector<ParameterGroup> groups, AdamOptions options) : Adam(std::move(groups), options) {
  decoupled_ = true;
}

Sgd::Sgd(std::vector<ParameterGroup> groups, SgdOptions options)
    : Optimizer(std::move(groups), {"velocity"}), options_(options) {
  require(options.momentum >= 0, "momentum", options.momentum, "at least 0");
  require(options.weight_decay >= 0, "weight decay", options.weight_decay, "at least 0");
}

Tensor Sgd::numbers(double rate, std::optional<double> weight_decay, int64_t) const {
  return numbers_of(SgdStep{rate, options_.momentum, weight_decay.value_or(options_.weight_decay), options_.nesterov});
}

void Sgd::update(const std::vector<Slot>& slots, const Tensor& numbers, const GradientClip& clip) {
  std::vector<SgdTensors> tensors;
  for (const auto& [parameter, moments] : slots) tensors.push_back({parameter->value, parameter->grad, (*moments)[0]});
  sgd_step(numbers, tensors, clip);
}

double gradient_norm(const std::vector<Parameter*>& parameters) { return global_norm(gradients_of(parameters)); }

GradientClip clip_by_norm(const std::vector<Parameter*>& parameters, double limit) {
  const std::vector<Tensor> gradients = gradients_of(parameters);
  return gradients.empty() ? GradientClip{} : GradientClip{.scale = clip_scale(gradients, limit)};
}

}  // namespace bochner
