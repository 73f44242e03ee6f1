#pragma once

#include "engine/cpu/linear.h"

namespace bochner::cuda {

decltype(cpu::linear) linear;
decltype(cpu::linear_backward) linear_backward;

}  // namespace bochner::cuda
