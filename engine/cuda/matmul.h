#pragma once

#include "engine/cpu/matmul.h"

namespace bochner::cuda {

using cpu::MatrixLayout;

decltype(cpu::matmul) matmul;

}  // namespace bochner::cuda
