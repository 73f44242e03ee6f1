#pragma once

#include "engine/cpu/feed_forward.h"

namespace bochner::cuda {

decltype(cpu::feed_forward) feed_forward;
decltype(cpu::feed_forward_backward) feed_forward_backward;

}  // namespace bochner::cuda
