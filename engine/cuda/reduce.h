#pragma once

#include "engine/cpu/reduce.h"

namespace bochner::cuda {

using cpu::Reduction;

/// The order of a sum follows from the sizes.
decltype(cpu::reduce) reduce;

}  // namespace bochner::cuda
