#pragma once

#include "engine/cpu/dropout.h"

namespace bochner::cuda {

decltype(cpu::dropout) dropout;
decltype(cpu::add_dropout) add_dropout;
decltype(cpu::dropout_mask) dropout_mask;

}  // namespace bochner::cuda
