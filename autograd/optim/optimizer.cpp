#include "autograd/optim/optimizer.h"

#include "engine/ops/optimizer_step.h"
#include "engine/ops/unary.h"

namespace bochner {

Optimizer::Optimizer(std::vector<Parameter*> parameters, std::vector<std::string> moments)
    : parameters_(std::move(parameters)), names_(std::move(moments)) {
  for (const Parameter* parameter : parameters_) {
    std::vector<Tensor> own;
    for (size_t i = 0; i < names_.size(); ++i) {
      own.push_back(Tensor::zeros(parameter->shape(), parameter->value.dtype(), parameter->value.device()));
    }
    moments_.push_back(own);
  }
}

void Optimizer::step(double rate, const GradientClip& clip) {
  ++steps_;
  std::vector<Slot> slots;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter* parameter = parameters_[i];
    if (parameter->trainable && parameter->grad.defined()) slots.push_back({parameter, &moments_[i]});
  }
  update(slots, rate, steps_, clip);
}

void Optimizer::clear_gradients() {
  for (Parameter* parameter : parameters_) parameter->grad = Tensor();
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> state{{"steps", Tensor::from<int64_t>({steps_}, {1})}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (size_t k = 0; k < names_.size(); ++k) state[parameters_[i]->name + "." + names_[k]] = moments_[i][k];
  }
  return state;
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
  for (const auto& [name, tensor] : mine) tensor.copy_(state.at(name));
  steps_ = state.at("steps").to_vector<int64_t>()[0];
}

Adam::Adam(std::vector<Parameter*> parameters, AdamOptions options)
    : Optimizer(std::move(parameters), {"first_moment", "second_moment"}), options_(options) {}

void Adam::update(const std::vector<Slot>& slots, double rate, int64_t steps, const GradientClip& clip) {
  std::vector<AdamTensors> tensors;
  for (const auto& [parameter, moments] : slots)
    tensors.push_back({parameter->value, parameter->grad, (*moments)[0], (*moments)[1]});
  adam_step({rate, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, decoupled_, steps, clip.scale,
             clip.limit},
            tensors);
}

AdamW::AdamW(std::vector<Parameter*> parameters, AdamOptions options) : Adam(std::move(parameters), options) {
  decoupled_ = true;
}

Sgd::Sgd(std::vector<Parameter*> parameters, SgdOptions options)
    : Optimizer(std::move(parameters), {"velocity"}), options_(options) {}

void Sgd::update(const std::vector<Slot>& slots, double rate, int64_t, const GradientClip& clip) {
  std::vector<SgdTensors> tensors;
  for (const auto& [parameter, moments] : slots) tensors.push_back({parameter->value, parameter->grad, (*moments)[0]});
  sgd_step({rate, options_.momentum, options_.weight_decay, options_.nesterov, clip.scale, clip.limit}, tensors);
}

double gradient_norm(const std::vector<Parameter*>& parameters) {
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : parameters) {
    if (parameter->grad.defined()) gradients.push_back(parameter->grad);
  }
  return global_norm(gradients);
}

GradientClip clip_by_norm(const std::vector<Parameter*>& parameters, double limit) {
  const double norm = gradient_norm(parameters);
  return {norm > limit ? limit / norm : 1};
}

double clip_gradient_norm(const std::vector<Parameter*>& parameters, double limit) {
  const double norm = gradient_norm(parameters);
  if (norm <= limit) return norm;
  for (Parameter* parameter : parameters) {
    if (parameter->grad.defined()) parameter->grad = parameter->grad * (limit / norm);
  }
  return norm;
}

void clip_gradient_value(const std::vector<Parameter*>& parameters, double limit) {
  for (Parameter* parameter : parameters) {
    if (parameter->grad.defined()) parameter->grad = clamp(parameter->grad, -limit, limit);
  }
}

}  // namespace bochner
