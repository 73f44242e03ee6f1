// One step of an optimizer on one parameter, in place and in one pass over memory.
#pragma once

#include "engine/tensor.h"

namespace bochner {

struct AdamStep {
  double rate;  ///< learning rate
  double beta1, beta2, eps;
  double weight_decay;
  bool decoupled;  ///< AdamW: decay the parameter; else add the decay to the gradient
  int64_t step;    ///< counts from 1
};

/// g' = g + wd p (unless decoupled: p *= 1 - rate wd),  m = b1 m + (1 - b1) g',  v = b2 v + (1 - b2) g'^2,
/// p -= rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).  All contiguous, one shape, f32 or f64.
void adam_step(const AdamStep& step, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v);

struct SgdStep {
  double rate;
  double momentum;
  double weight_decay;
  bool nesterov;
};

/// g' = g + wd p,  u = momentum u + g',  p -= rate u  (nesterov: p -= rate (g' + momentum u)).
void sgd_step(const SgdStep& step, const Tensor& p, const Tensor& g, const Tensor& u);

}  // namespace bochner
