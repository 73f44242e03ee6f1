// What a model's state holds besides its parameters, such as running means and drawn features. A training step may
// change it.
#pragma once

#include <map>
#include <string>

#include "layers/module.h"

namespace bochner {

using Buffers = std::map<std::string, Tensor>;

/// By name; these are the model's own tensors.
Buffers buffers_of(Module& model);
Buffers copied_buffers(Module& model);
/// Sets the model's buffers to what was copied.
void set_buffers(Module& model, const Buffers& copied);

}  // namespace bochner
