#include "engine/ops/optimizer_step.h"

#include <cmath>

#include "engine/kernel.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace bochner {

BOCHNER_KERNEL(kAdam, "adam_step", adam_step, const Tensor& numbers, const GradientClip& clip,
               const std::vector<AdamTensors>& tensors);
BOCHNER_KERNEL(kSgd, "sgd_step", sgd_step, const Tensor& numbers, const GradientClip& clip,
               const std::vector<SgdTensors>& tensors);
// `sum` is one f64; tensors are contiguous.
BOCHNER_KERNEL(kSumOfSquares, "global_norm", sum_of_squares, const std::vector<Tensor>& tensors, const Tensor& sum);

namespace {

/// Refuses tensors that are not on the device of the first parameter, `first`.
void require_alike(const char* op, const Tensor& first, std::initializer_list<const Tensor*> tensors) {
  const Tensor& p = **tensors.begin();
  for (const Tensor* tensor : tensors) {
    if (!(tensor->shape() == p.shape()) || tensor->dtype() != p.dtype() || !tensor->is_contiguous())
      fail("{}: {} does not fit the parameter {}; both must be contiguous", op, tensor->str(), p.str());
    if (tensor->device() != first.device())
      fail("{}: {} and {} are on different devices", op, tensor->str(), first.str());
  }
}

/// Refuses anything but `count` f64 on the device of the parameters.
void require_numbers(const char* op, const char* what, const Tensor& numbers, int64_t count, const Tensor& first) {
  if (numbers.size() != count || numbers.dtype() != DType::f64 || !numbers.is_contiguous() ||
      numbers.device() != first.device()) {
    fail("{}: the {} must be {} f64 on {}, got {}", op, what, count, first.device().str(), numbers.str());
  }
}

void require_clip(const char* op, const GradientClip& clip, const Tensor& first) {
  if (!(clip.limit >= 0)) fail("{}: the gradient limit {} must not be negative", op, clip.limit);
  if (clip.scale.defined()) require_numbers(op, "gradient scale", clip.scale, 1, first);
  if (clip.guard.defined()) require_numbers(op, "guard", clip.guard, 1, first);
}

}  // namespace

Tensor numbers_of(const AdamStep& step) {
  if (step.step < 1) fail("adam_step: step {} must count from 1", step.step);
  const double t = static_cast<double>(step.step);
  return Tensor::from<double>(
      {step.beta1, step.beta2, 1 - step.beta1, 1 - step.beta2, step.eps,
       step.decoupled ? 1 - step.rate * step.weight_decay : 1, step.decoupled ? 0 : step.weight_decay,
       step.rate / (1 - std::pow(step.beta1, t)), 1 / std::sqrt(1 - std::pow(step.beta2, t))},
      {AdamElement<double>::kCount});
}

Tensor numbers_of(const SgdStep& step) {
  return Tensor::from<double>(
      {step.momentum, step.weight_decay, step.rate, step.nesterov ? step.momentum : 1.0, step.nesterov ? 1.0 : 0.0},
      {SgdElement<double>::kCount});
}

void adam_step(const Tensor& numbers, const std::vector<AdamTensors>& tensors, const GradientClip& clip) {
  if (tensors.empty()) return;
  const Tensor& first = tensors.front().p;
  require_numbers("adam_step", "numbers", numbers, AdamElement<double>::kCount, first);
  require_clip("adam_step", clip, first);
  for (const AdamTensors& one : tensors) require_alike("adam_step", first, {&one.p, &one.g, &one.m, &one.v});
  for (const AdamTensors& one : tensors) {
    for (const Tensor* written : {&one.p, &one.m, &one.v}) written->overwritten();
  }
  kAdam(first.device(), numbers, clip, tensors);
}

void adam_step(const AdamStep& step, const std::vector<AdamTensors>& tensors, const GradientClip& clip) {
  const Tensor numbers = numbers_of(step);
  if (!tensors.empty()) adam_step(numbers.to(tensors.front().p.device()), tensors, clip);
}

void sgd_step(const Tensor& numbers, const std::vector<SgdTensors>& tensors, const GradientClip& clip) {
  if (tensors.empty()) return;
  const Tensor& first = tensors.front().p;
  require_numbers("sgd_step", "numbers", numbers, SgdElement<double>::kCount, first);
  require_clip("sgd_step", clip, first);
  for (const SgdTensors& one : tensors) require_alike("sgd_step", first, {&one.p, &one.g, &one.u});
  for (const SgdTensors& one : tensors) {
    for (const Tensor* written : {&one.p, &one.u}) written->overwritten();
  }
  kSgd(first.device(), numbers, clip, tensors);
}

void sgd_step(const SgdStep& step, const std::vector<SgdTensors>& tensors, const GradientClip& clip) {
  if (!tensors.empty()) sgd_step(numbers_of(step).to(tensors.front().p.device()), tensors, clip);
}

Tensor sum_of_squares(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) fail("sum_of_squares: there are no tensors");
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) rows.push_back(tensor.contiguous());
  const Tensor sum = Tensor::empty({}, DType::f64, rows.front().device());
  kSumOfSquares(sum.device(), rows, sum);
  return sum;
}

double global_norm(const std::vector<Tensor>& tensors) {
  return tensors.empty() ? 0 : std::sqrt(sum_of_squares(tensors).item());
}

Tensor clip_scale(const std::vector<Tensor>& tensors, double limit) {
  if (!(limit > 0)) fail("clip_scale: the limit {} must be positive", limit);
  const Tensor norm = sqrt(sum_of_squares(tensors));
  // Exactly 1 up to the limit; NaN if the norm is NaN.
  const Tensor most = Tensor::scalar(limit, DType::f64, norm.device());
  return most / maximum(most, norm);
}

}  // namespace bochner
