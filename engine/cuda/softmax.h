#pragma once

#include "engine/cpu/softmax.h"

namespace bochner::cuda {

decltype(cpu::softmax) softmax;
decltype(cpu::softmax_backward) softmax_backward;
decltype(cpu::logsumexp) logsumexp;

}  // namespace bochner::cuda
