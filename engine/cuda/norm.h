#pragma once

#include "engine/cpu/norm.h"

namespace bochner::cuda {

decltype(cpu::layer_norm) layer_norm;
decltype(cpu::layer_norm_apply) layer_norm_apply;
decltype(cpu::residual_layer_norm) residual_layer_norm;
decltype(cpu::layer_norm_backward) layer_norm_backward;
decltype(cpu::column_moments) column_moments;
decltype(cpu::batch_norm_apply) batch_norm_apply;
decltype(cpu::batch_norm_backward) batch_norm_backward;

}  // namespace bochner::cuda
