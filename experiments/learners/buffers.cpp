#include "experiments/learners/buffers.h"

namespace bochner {

Buffers buffers_of(Module& model) {
  Buffers all = model.state();
  for (const Parameter* parameter : model.parameters()) all.erase(parameter->name);
  return all;
}

Buffers copied_buffers(Module& model) {
  Buffers copies;
  for (const auto& [name, tensor] : buffers_of(model)) copies[name] = tensor.clone();
  return copies;
}

void set_buffers(Module& model, const Buffers& copied) {
  for (const auto& [name, tensor] : buffers_of(model)) tensor.copy_(copied.at(name));
}

}  // namespace bochner
