// One step of an optimizer over many parameters, in place and in one pass over memory; the pass also takes the gradient
// clipped by a norm (as a factor) or by value, so that clipping costs no pass of its own. Small parameters share pieces
// of work with large ones. f32, f64.
//
//   const double norm = global_norm(gradients);
//   step.gradient_scale = std::min(1.0, limit / norm);
//   adam_step(step, tensors);
#pragma once

#include <limits>
#include <vector>

#include "engine/tensor.h"

namespace bochner {

struct AdamStep {
  double rate;  ///< learning rate
  double beta1, beta2, eps;
  double weight_decay;
  bool decoupled;                                                   ///< AdamW: decay the parameter, not the gradient
  int64_t step;                                                     ///< t, counts from 1
  double gradient_scale = 1;                                        ///< g is multiplied by this first,
  double gradient_limit = std::numeric_limits<double>::infinity();  ///< then clipped to [-limit, limit]
};

/// A parameter, its gradient and its moments: contiguous, of one shape and type.
struct AdamTensors {
  Tensor p, g, m, v;
};

/// Adam (Kingma & Ba, 2015) and AdamW (Loshchilov & Hutter, 2019), with PyTorch's eps outside the root:
///   AdamW: p *= 1 - rate wd;  Adam: g += wd p;
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   p -= rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
void adam_step(const AdamStep& step, const std::vector<AdamTensors>& tensors);

struct SgdStep {
  double rate;
  double momentum;
  double weight_decay;
  bool nesterov;
  double gradient_scale = 1;  ///< as in AdamStep
  double gradient_limit = std::numeric_limits<double>::infinity();
};

/// A parameter, its gradient and its velocity; contiguous, of one shape and type.
struct SgdTensors {
  Tensor p, g, u;
};

/// g += wd p,  u = momentum u + g,  p -= rate u  (nesterov: p -= rate (g + momentum u)).
void sgd_step(const SgdStep& step, const std::vector<SgdTensors>& tensors);

/// sqrt(sum of the squares of all elements of all tensors), added in fixed order, across pieces in double.
double global_norm(const std::vector<Tensor>& tensors);

}  // namespace bochner
