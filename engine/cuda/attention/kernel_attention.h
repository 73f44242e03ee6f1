#pragma once

#include "engine/cpu/attention/kernel_attention.h"

namespace bochner::cuda {

decltype(cpu::kernel_attention) kernel_attention;
decltype(cpu::kernel_attention_backward) kernel_attention_backward;

}  // namespace bochner::cuda
