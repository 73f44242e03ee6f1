#include "engine/ops/optimizer_step.h"

#include <cmath>

#include "engine/cpu/optimizer_step.h"
#include "engine/cuda/optimizer_step.h"
#include "engine/kernel.h"

namespace bochner {
namespace {

constexpr Kernel kAdam{"adam_step", &cpu::adam_step, CUDA_KERNEL(adam_step)};
constexpr Kernel kSgd{"sgd_step", &cpu::sgd_step, CUDA_KERNEL(sgd_step)};
constexpr Kernel kSumOfSquares{"global_norm", &cpu::sum_of_squares, CUDA_KERNEL(sum_of_squares)};

/// All on the device of the first parameter, `first`.
void require_alike(const char* op, const Tensor& first, std::initializer_list<const Tensor*> tensors) {
  const Tensor& p = **tensors.begin();
  for (const Tensor* tensor : tensors) {
    if (!(tensor->shape() == p.shape()) || tensor->dtype() != p.dtype() || !tensor->is_contiguous())
      fail("{}: {} does not fit the parameter {}; both must be contiguous", op, tensor->str(), p.str());
    if (tensor->device() != first.device())
      fail("{}: {} and {} are on different devices", op, tensor->str(), first.str());
  }
}

void require_limit(const char* op, double limit) {
  if (!(limit >= 0)) fail("{}: the gradient limit {} must not be negative", op, limit);
}

}  // namespace

void adam_step(const AdamStep& step, const std::vector<AdamTensors>& tensors) {
  require_limit("adam_step", step.gradient_limit);
  if (step.step < 1) fail("adam_step: step {} must count from 1", step.step);
  if (tensors.empty()) return;
  const Tensor& first = tensors.front().p;
  for (const AdamTensors& one : tensors) require_alike("adam_step", first, {&one.p, &one.g, &one.m, &one.v});
  kAdam(first.device(), step, tensors);
}

void sgd_step(const SgdStep& step, const std::vector<SgdTensors>& tensors) {
  require_limit("sgd_step", step.gradient_limit);
  if (tensors.empty()) return;
  const Tensor& first = tensors.front().p;
  for (const SgdTensors& one : tensors) require_alike("sgd_step", first, {&one.p, &one.g, &one.u});
  kSgd(first.device(), step, tensors);
}

double global_norm(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return 0;
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) rows.push_back(tensor.contiguous());
  double sum = 0;
  kSumOfSquares(rows.front().device(), rows, sum);
  return std::sqrt(sum);
}

}  // namespace bochner
