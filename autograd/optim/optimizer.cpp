#include "autograd/optim/optimizer.h"

namespace bochner {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Parameter*>& parameters) {
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : parameters) {
    if (parameter->grad.defined()) gradients.push_back(parameter->grad);
  }
  return gradients;
}

}  // namespace

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
  prepare(rate);
  apply(clip);
}

void Optimizer::prepare(double rate) {
  const Tensor now = numbers(rate, ++steps_);
  if (!numbers_.defined() && !parameters_.empty()) {
    numbers_ = Tensor::empty(now.shape(), now.dtype(), parameters_.front()->value.device());
  }
  if (numbers_.defined()) numbers_.copy_(now);
}

void Optimizer::apply(const GradientClip& clip) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter* parameter = parameters_[i];
    if (parameter->trainable && parameter->grad.defined()) slots.push_back({parameter, &moments_[i]});
  }
  update(slots, numbers_, clip);
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

Tensor Adam::numbers(double rate, int64_t steps) const {
  return numbers_of(
      AdamStep{rate, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, decoupled_, steps});
}

void Adam::update(const std::vector<Slot>& slots, const Tensor& numbers, const GradientClip& clip) {
  std::vector<AdamTensors> tensors;
  for (const auto& [parameter, moments] : slots)
    tensors.push_back({parameter->value, parameter->grad, (*moments)[0], (*moments)[1]});
  adam_step(numbers, tensors, clip);
}

AdamW::AdamW(std::vector<Parameter*> parameters, AdamOptions options) : Adam(std::move(parameters), options) {
  decoupled_ = true;
}

Sgd::Sgd(std::vector<Parameter*> parameters, SgdOptions options)
    : Optimizer(std::move(parameters), {"velocity"}), options_(options) {}

Tensor Sgd::numbers(double rate, int64_t) const {
  return numbers_of(SgdStep{rate, options_.momentum, options_.weight_decay, options_.nesterov});
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
