#pragma once

#include "engine/cpu/cross_entropy.h"

namespace bochner::cuda {

decltype(cpu::cross_entropy) cross_entropy;
decltype(cpu::cross_entropy_backward) cross_entropy_backward;
decltype(cpu::binary_cross_entropy) binary_cross_entropy;
decltype(cpu::binary_cross_entropy_backward) binary_cross_entropy_backward;
decltype(cpu::mean_squared_error) mean_squared_error;
decltype(cpu::mean_squared_error_backward) mean_squared_error_backward;

}  // namespace bochner::cuda
