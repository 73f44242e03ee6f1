// The functions f of elementwise features, phi(x) = f(u) + eps, and their visitor. The list is in feature_map.h: to add
// a function, add a line there.
#pragma once

#include "engine/ops/features/feature_map.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace feature_function {

/// y = elu(x) + 1
struct EluPlusOne {
  template <class T>
  BOCHNER_HD T forward(T x) const {
    return unary::Elu{}.forward(x) + T(1);
  }
  template <class T>
  BOCHNER_HD T derivative(T x, T y) const {
    return unary::Elu{}.derivative(x, y - T(1));
  }
};

/// y = x
struct Identity {
  template <class T>
  BOCHNER_HD T forward(T x) const {
    return x;
  }
  template <class T>
  BOCHNER_HD T derivative(T, T) const {
    return T(1);
  }
};

/// y = -1, 0 or 1; its slope is 0, also at infinity
struct Sgn {
  template <class T>
  BOCHNER_HD T forward(T x) const {
    return math::sign(x);
  }
  template <class T>
  BOCHNER_HD T derivative(T, T) const {
    return T(0);
  }
};

/// For each line of the list: forward(u) and derivative(u, y) of numbers, and composed(u) of Variables.
template <FeatureMap::Function f>
struct Definition;

#define BOCHNER_DEFINE(name, op, text)                        \
  template <>                                                 \
  struct Definition<FeatureMap::Function::name> : public op { \
    template <class V>                                        \
    static V composed(const V& u) {                           \
      return text;                                            \
    }                                                         \
  };
BOCHNER_FEATURE_FUNCTIONS(BOCHNER_DEFINE)
#undef BOCHNER_DEFINE

}  // namespace feature_function

/// body(definition) of the function f.
template <class Body>
BOCHNER_HD auto with_feature_function(FeatureMap::Function f, const Body& body) {
  switch (f) {
#define BOCHNER_VISIT(name, op, text) \
  case FeatureMap::Function::name:    \
    return body(feature_function::Definition<FeatureMap::Function::name>{});
    BOCHNER_FEATURE_FUNCTIONS(BOCHNER_VISIT)
#undef BOCHNER_VISIT
  }
  return body(feature_function::Definition<FeatureMap::Function::identity>{});  // not reached: every name is a case
}

}  // namespace bochner
