#include "layers/activation.h"

#include <string>

#include "autograd/ops/unary.h"
#include "engine/nearest.h"

namespace bochner {
namespace {

template <class Op>
Variable by(const Variable& x) {
  return apply(Op{}, x);
}

template <class Op>
ActivationInfo of(std::string_view used) {
  return {Op::name, Op::equation, used, by<Op>};
}

Variable identity(const Variable& x) { return x; }
Variable elu_plus_one(const Variable& x) { return elu(x) + 1; }
Variable siren(const Variable& x) { return sin(x * 30); }

}  // namespace

const std::vector<ActivationInfo>& activations() {
  static const std::vector<ActivationInfo> list = {
      {"identity", "y = x", "PERF generalised attention", identity},
      of<unary::Relu>("KL and SKY classifiers; PERF generalised attention; SNNK"),
      of<unary::LeakyRelu>("KL generator network"),
      of<unary::Elu>(""),
      {"elu_plus_one", "y = elu(x) + 1", "linear attention (Katharopoulos et al., 2020)", elu_plus_one},
      of<unary::Gelu>("feed-forward blocks of KL and SKY; PERF generalised attention; SNNK"),
      of<unary::GeluTanh>("the JAX code of PERF and LRA"),
      of<unary::Sigmoid>("PERF generalised attention"),
      of<unary::Tanh>("KL generator network, GLUE head; PERF generalised attention; SNNK poolers"),
      of<unary::Softplus>(""),
      of<unary::Exp>("PERF generalised attention"),
      of<unary::Abs>("PERF generalised attention"),
      of<unary::Sin>("SNNK"),
      of<unary::Cos>("PERF generalised attention; SNNK"),
      {"siren", "y = sin(30 x)  (Sitzmann et al., 2020)", "the SIREN networks of SNNK", siren},
  };
  return list;
}

ActivationFunction activation_function(std::string_view name) {
  std::vector<std::string> names;
  for (const ActivationInfo& info : activations()) {
    if (info.name == name) return info.function;
    names.emplace_back(info.name);
  }
  fail("activation: '{}' is not known; the nearest is '{}' (all: {})", name, nearest(name, names), listed(names));
}

ActivationLayer::ActivationLayer(Slot slot, std::string_view activation)
    : Module(std::move(slot)), function_(activation_function(activation)) {}

Variable ActivationLayer::forward(const Variable& x) const {
  const Scope scope(name());
  return function_(x);
}

}  // namespace bochner
