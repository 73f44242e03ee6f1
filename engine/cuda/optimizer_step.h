#pragma once

#include "engine/cpu/optimizer_step.h"

namespace bochner::cuda {

decltype(cpu::adam_step) adam_step;
decltype(cpu::sgd_step) sgd_step;
decltype(cpu::sum_of_squares) sum_of_squares;

}  // namespace bochner::cuda
