// Activations by name: every one that the papers use, as a function and as a module.
//
//   const auto f = activation_function("gelu");
//   Variable y = f(x);
#pragma once

#include <string_view>
#include <vector>

#include "layers/module.h"

namespace bochner {

using ActivationFunction = Variable (*)(const Variable&);

struct ActivationInfo {
  std::string_view name;
  std::string_view equation;
  std::string_view used;  ///< where in the papers
  ActivationFunction function;
};

/// All activations, in the order of layers/activation.cpp.
const std::vector<ActivationInfo>& activations();
/// The activation with that name, or an Error that names the nearest one.
ActivationFunction activation_function(std::string_view name);

/// The same as a module without parameters, for models that are lists of modules.
class ActivationLayer : public Module {
 public:
  ActivationLayer(Slot slot, std::string_view activation);
  Variable forward(const Variable& x) const;

 private:
  ActivationFunction function_;
};

}  // namespace bochner
