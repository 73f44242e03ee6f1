#pragma once

#include "engine/cpu/attention/softmax_attention.h"

namespace bochner::cuda {

decltype(cpu::softmax_attention) softmax_attention;
decltype(cpu::softmax_attention_backward) softmax_attention_backward;

}  // namespace bochner::cuda
