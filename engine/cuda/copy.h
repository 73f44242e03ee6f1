#pragma once

#include "engine/cpu/copy.h"

namespace bochner::cuda {

decltype(cpu::copy) copy;
decltype(cpu::fill) fill;
/// Of one shape, on two devices, at least one of them a card; any strides and types. Waits where `to` is on the CPU.
void copy_between_devices(const Tensor& from, const Tensor& to);

}  // namespace bochner::cuda
