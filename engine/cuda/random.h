#pragma once

#include "engine/cpu/random.h"

namespace bochner::cuda {

decltype(cpu::uniform) uniform;
decltype(cpu::normal) normal;
decltype(cpu::bernoulli) bernoulli;
decltype(cpu::integers) integers;

}  // namespace bochner::cuda
