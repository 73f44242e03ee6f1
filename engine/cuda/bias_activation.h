#pragma once

#include "engine/cpu/bias_activation.h"

namespace bochner::cuda {

decltype(cpu::bias_activation) bias_activation;
decltype(cpu::bias_activation_backward) bias_activation_backward;
decltype(cpu::column_sum) column_sum;

}  // namespace bochner::cuda
