#pragma once

#include "engine/ops/optimizer_step.h"

namespace bochner::cpu {

void adam_step(const Tensor& numbers, const GradientClip& clip, const std::vector<AdamTensors>& tensors);
void sgd_step(const Tensor& numbers, const GradientClip& clip, const std::vector<SgdTensors>& tensors);
/// `sum` is one f64; tensors are contiguous.
void sum_of_squares(const std::vector<Tensor>& tensors, const Tensor& sum);

}  // namespace bochner::cpu
