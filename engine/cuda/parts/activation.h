// The activations as function objects for kernels; definitions in engine/ops/unary.h.
#pragma once

#include "engine/cuda/parts/launch.h"
#include "engine/ops/bias_activation.h"
#include "engine/ops/unary.h"

namespace bochner::cuda {

struct IdentityActivation {
  template <class T>
  BOCHNER_DEVICE T forward(T x) const {
    return x;
  }
  template <class T>
  BOCHNER_DEVICE T derivative(T) const {
    return T(1);
  }
};

template <class Op>
struct UnaryActivation {
  template <class T>
  BOCHNER_DEVICE T forward(T x) const {
    return Op{}.forward(x);
  }
  template <class T>
  BOCHNER_DEVICE T derivative(T x) const {
    return Op{}.derivative(x, x);  // none of these derivatives needs y
  }
};

/// f(function object of that activation)
template <class F>
void visit_activation(Activation activation, const F& f) {
  switch (activation) {
    case Activation::relu:
      return f(UnaryActivation<unary::Relu>{});
    case Activation::gelu:
      return f(UnaryActivation<unary::Gelu>{});
    case Activation::gelu_tanh:
      return f(UnaryActivation<unary::GeluTanh>{});
    case Activation::identity:
      break;
  }
  f(IdentityActivation{});
}

}  // namespace bochner::cuda
