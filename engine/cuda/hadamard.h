#pragma once

#include "engine/cpu/hadamard.h"

namespace bochner::cuda {

decltype(cpu::hadamard) hadamard;

}  // namespace bochner::cuda
