#pragma once

#include "engine/ops/optimizer_step.h"

namespace bochner::cpu {

void adam_step(const AdamStep& step, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v);
void sgd_step(const SgdStep& step, const Tensor& p, const Tensor& g, const Tensor& u);

}  // namespace bochner::cpu
