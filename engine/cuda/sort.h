#pragma once

#include "engine/cpu/sort.h"

namespace bochner::cuda {

decltype(cpu::sort) sort;
decltype(cpu::argmax) argmax;

}  // namespace bochner::cuda
