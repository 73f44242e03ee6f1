#pragma once

#include "engine/ops/optimizer_step.h"

namespace bochner::cuda {

void adam_step(const AdamStep& step, const std::vector<AdamTensors>& tensors);
void sgd_step(const SgdStep& step, const std::vector<SgdTensors>& tensors);
/// Adds to `sum` the squares of all elements; tensors are contiguous.
void sum_of_squares(const std::vector<Tensor>& tensors, double& sum);

}  // namespace bochner::cuda
