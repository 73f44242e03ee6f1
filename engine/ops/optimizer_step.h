// One step of an optimizer over many parameters, in place and in one pass over memory. The same pass clips gradients,
// by a norm (as a factor) or by value, so clipping needs no pass of its own. Small parameters share pieces of work with
// large ones. f32, f64.
//
// Everything that changes from step to step, including the learning rate and the step count, is read from memory of the
// parameters' device: the host does not wait, and a step recorded on a GPU can be replayed with other numbers.
//
//   const Tensor numbers = numbers_of(step).to(device);
//   adam_step(numbers, tensors, {.scale = clip_scale(gradients, limit)});
#pragma once

#include <limits>
#include <vector>

#include "engine/math.h"
#include "engine/tensor.h"

namespace bochner {

/// How gradients enter a step, and whether the step changes anything.
struct GradientClip {
  Tensor scale{};  ///< one f64 on the parameters' device that g is first multiplied by; undefined: 1
  double limit = std::numeric_limits<double>::infinity();  ///< g is then clipped to [-limit, limit]
  Tensor guard{};  ///< one f64 on that device: if it is not finite, nothing changes; undefined: no check
};

struct AdamStep {
  double rate;  ///< learning rate
  double beta1, beta2, eps;
  double weight_decay;
  bool decoupled;  ///< AdamW: decay the parameter, not the gradient
  int64_t step;    ///< t, counts from 1
};

/// A parameter, its gradient and its moments: contiguous, of the same shape and type.
struct AdamTensors {
  Tensor p, g, m, v;
};

/// Adam (Kingma & Ba, 2015) and AdamW (Loshchilov & Hutter, 2019), with PyTorch's eps outside the root:
///   AdamW: p *= 1 - rate wd;  Adam: g += wd p;
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   p -= rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
/// `numbers` are those of numbers_of(step), on the parameters' device.
void adam_step(const Tensor& numbers, const std::vector<AdamTensors>& tensors, const GradientClip& clip = {});
void adam_step(const AdamStep& step, const std::vector<AdamTensors>& tensors, const GradientClip& clip = {});

struct SgdStep {
  double rate;
  double momentum;
  double weight_decay;
  bool nesterov;
};

/// A parameter, its gradient and its velocity: contiguous, of the same shape and type.
struct SgdTensors {
  Tensor p, g, u;
};

/// g += wd p,  u = momentum u + g,  p -= rate u  (nesterov: p -= rate (g + momentum u)).
void sgd_step(const Tensor& numbers, const std::vector<SgdTensors>& tensors, const GradientClip& clip = {});
void sgd_step(const SgdStep& step, const std::vector<SgdTensors>& tensors, const GradientClip& clip = {});

/// The numbers of a step that the update of each element needs, as the kernels read them: f64, on the CPU.
Tensor numbers_of(const AdamStep& step);
Tensor numbers_of(const SgdStep& step);

/// The sum of the squares of all elements of all tensors, added in fixed order, across pieces in double: one f64 on
/// their device. At least one tensor. Squares are in the tensors' type: in f32 they hold from about 1e-22 to 1e19.
Tensor sum_of_squares(const std::vector<Tensor>& tensors);
/// The root of that sum, read by the host; 0 if there are no tensors.
double global_norm(const std::vector<Tensor>& tensors);
/// min(1, limit / norm) with the norm of all tensors together, for GradientClip: one f64 on their device. limit > 0.
Tensor clip_scale(const std::vector<Tensor>& tensors, double limit);

/// For the kernels of both backends: adam_step of one element, in the type of the parameters.
template <class T>
struct AdamElement {
  static constexpr int64_t kCount = 9;
  T beta1, beta2, one_minus_beta1, one_minus_beta2, eps;
  T keep;   ///< AdamW: 1 - rate wd; Adam: 1
  T decay;  ///< AdamW: 0; Adam: wd
  T rate;   ///< rate / (1 - beta1^t)
  T root;   ///< 1 / sqrt(1 - beta2^t)

  BOCHNER_HD explicit AdamElement(const double* numbers)
      : beta1(static_cast<T>(numbers[0])),
        beta2(static_cast<T>(numbers[1])),
        one_minus_beta1(static_cast<T>(numbers[2])),
        one_minus_beta2(static_cast<T>(numbers[3])),
        eps(static_cast<T>(numbers[4])),
        keep(static_cast<T>(numbers[5])),
        decay(static_cast<T>(numbers[6])),
        rate(static_cast<T>(numbers[7])),
        root(static_cast<T>(numbers[8])) {}

  BOCHNER_HD void step(T& p, T g, T& m, T& v) const {
    p *= keep;
    g = math::fma(decay, p, g);
    m = math::fma(one_minus_beta1, g, beta1 * m);
    v = math::fma(one_minus_beta2 * g, g, beta2 * v);
    p -= rate * m / math::fma(math::sqrt(v), root, eps);
  }
};
/// The same for sgd_step.
template <class T>
struct SgdElement {
  static constexpr int64_t kCount = 5;
  T momentum, decay, rate;
  T of_u, of_g;  ///< p -= rate (of_u u + of_g g): 1 and 0; nesterov: momentum and 1

  BOCHNER_HD explicit SgdElement(const double* numbers)
      : momentum(static_cast<T>(numbers[0])),
        decay(static_cast<T>(numbers[1])),
        rate(static_cast<T>(numbers[2])),
        of_u(static_cast<T>(numbers[3])),
        of_g(static_cast<T>(numbers[4])) {}

  BOCHNER_HD void step(T& p, T g, T& u) const {
    g = math::fma(decay, p, g);
    u = math::fma(momentum, u, g);
    p -= rate * math::fma(of_u, u, of_g * g);
  }
};
/// g, first times `scale`, then cut to [-limit, limit]
template <class T>
BOCHNER_HD T clipped(T g, T scale, T limit) {
  g *= scale;
  g = g > limit ? limit : g;
  return g < -limit ? -limit : g;
}
/// GradientClip as kernels read it; null if undefined.
struct ClipAddresses {
  const double* scale;
  const double* guard;
  double limit;

  explicit ClipAddresses(const GradientClip& clip)
      : scale(clip.scale.defined() ? clip.scale.data<double>() : nullptr),
        guard(clip.guard.defined() ? clip.guard.data<double>() : nullptr),
        limit(clip.limit) {}
  /// Whether parameters may change.
  BOCHNER_HD bool open() const { return guard == nullptr || (*guard - *guard == 0); }
  template <class T>
  BOCHNER_HD T scale_as() const {
    return scale == nullptr ? T(1) : static_cast<T>(*scale);
  }
};

}  // namespace bochner
