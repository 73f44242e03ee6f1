#pragma once

#include "engine/cpu/scan.h"

namespace bochner::cuda {

decltype(cpu::cumsum) cumsum;

}  // namespace bochner::cuda
