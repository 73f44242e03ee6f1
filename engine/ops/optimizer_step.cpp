#include "engine/ops/optimizer_step.h"

#include "engine/cpu/optimizer_step.h"
#include "engine/kernel.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/optimizer_step.h"
#endif

namespace bochner {
namespace {

using T = const Tensor&;
constexpr Kernel<void(const AdamStep&, T, T, T, T)> kAdam{"adam_step", &cpu::adam_step, CUDA_KERNEL(adam_step)};
constexpr Kernel<void(const SgdStep&, T, T, T)> kSgd{"sgd_step", &cpu::sgd_step, CUDA_KERNEL(sgd_step)};

void require_alike(const char* op, std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  for (const Tensor* tensor : tensors) {
    if (!(tensor->shape() == first.shape()) || tensor->dtype() != first.dtype() || !tensor->is_contiguous()) {
      fail("{}: {} does not fit the parameter {}; both must be contiguous", op, tensor->str(), first.str());
    }
  }
}

}  // namespace

void adam_step(const AdamStep& step, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v) {
  require_alike("adam_step", {&p, &g, &m, &v});
  kAdam(p.device(), step, p, g, m, v);
}

void sgd_step(const SgdStep& step, const Tensor& p, const Tensor& g, const Tensor& u) {
  require_alike("sgd_step", {&p, &g, &u});
  kSgd(p.device(), step, p, g, u);
}

}  // namespace bochner
