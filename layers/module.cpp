#include "layers/module.h"

#include <set>

namespace bochner {

Module::Module(Slot slot) : parent_(slot.parent), name_(slot.name), path_(slot.name) {
  if (slot.parent == nullptr) return;
  if (name_.empty()) path_ = slot.parent->path_;
  if (!name_.empty() && !slot.parent->path_.empty()) path_ = slot.parent->path_ + "." + name_;
  slot.parent->children_.push_back(this);
}

Module::~Module() {
  for (Module* child : children_) child->parent_ = nullptr;
  if (parent_ != nullptr) std::erase(parent_->children_, this);
}

template <class F>
void Module::visit(const F& f) {
  f(*this);
  for (Module* child : children_) child->visit(f);
}

std::vector<Parameter*> Module::parameters() {
  std::vector<Parameter*> found;
  visit([&](Module& module) {
    for (Parameter& parameter : module.parameters_) found.push_back(&parameter);
  });
  return found;
}

std::map<std::string, Tensor> Module::state() {
  std::map<std::string, Tensor> state;
  const auto add = [&](const std::string& name, const Tensor& value) {
    if (!state.emplace(name, value).second)
      fail("module: two tensors are called '{}', and a checkpoint would hold one of them; name their parts apart",
           name);
  };
  visit([&](Module& module) {
    for (const Parameter& parameter : module.parameters_) add(parameter.name, parameter.value);
    for (const Buffer& buffer : module.buffers_) add(buffer.name, buffer.value);
  });
  return state;
}

void Module::load_state(const std::map<std::string, Tensor>& state) {
  const std::map<std::string, Tensor> mine = this->state();
  for (const auto& [name, value] : mine) {
    const auto found = state.find(name);
    if (found == state.end()) fail("checkpoint: tensor '{}' is missing; is this another model's checkpoint?", name);
    if (!(found->second.shape() == value.shape())) {
      fail("checkpoint: tensor '{}' has shape {}, the model needs {}; is this another model's checkpoint?", name,
           found->second.shape().str(), value.shape().str());
    }
  }
  for (const auto& [name, value] : state) {
    if (!mine.contains(name))
      fail("checkpoint: tensor '{}' is not part of this model; is this another model's checkpoint?", name);
  }
  for (const auto& [name, value] : mine) value.copy_(state.at(name));
}

void Module::to(Device device, DType dtype) {
  visit([&](Module& module) {
    for (Parameter& parameter : module.parameters_) parameter.value = parameter.value.cast(dtype).to(device);
    for (Buffer& buffer : module.buffers_) {
      buffer.value = (is_floating(buffer.value.dtype()) ? buffer.value.cast(dtype) : buffer.value).to(device);
    }
  });
}

int64_t Module::parameter_count() {
  int64_t count = 0;
  for (const Parameter* parameter : parameters()) count += parameter->trainable ? parameter->value.size() : 0;
  return count;
}

int64_t Module::bytes() {
  int64_t total = 0;
  for (const auto& [name, tensor] : state()) total += tensor.size() * static_cast<int64_t>(size_of(tensor.dtype()));
  return total;
}

void Module::set_trainable(bool trainable) {
  for (Parameter* parameter : parameters()) parameter->trainable = trainable;
}

void Module::clear_gradients() {
  for (Parameter* parameter : parameters()) parameter->grad = Tensor();
}

Parameter& Module::parameter(const std::string& name, Tensor value) {
  const std::string full = path_.empty() ? name : path_ + "." + name;
  return parameters_.emplace_back(Parameter{full, std::move(value), {}});
}

Tensor& Module::buffer(const std::string& name, Tensor value) {
  const std::string full = path_.empty() ? name : path_ + "." + name;
  return buffers_.emplace_back(Buffer{full, std::move(value)}).value;
}

}  // namespace bochner
