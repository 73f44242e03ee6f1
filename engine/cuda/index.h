#pragma once

#include "engine/cpu/index.h"

namespace bochner::cuda {

using cpu::Scatter;

/// An element out of range becomes an Error at the next read by the host; what follows leaves such elements out.
decltype(cpu::check_index) check_index;
decltype(cpu::gather) gather;
decltype(cpu::scatter_add) scatter_add;
decltype(cpu::one_hot) one_hot;

}  // namespace bochner::cuda
