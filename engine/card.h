// What programs need to know about the GPUs of this machine, whether or not the build has a CUDA backend.
#pragma once

#include <cstdint>
#include <string>

#include "engine/device.h"

namespace bochner {

/// The number of GPUs that can be used.
int cards();
/// The GPU that `cuda` without a number names (Device::named) in this process: 0, unless it is set because several
/// processes share the GPUs of a machine.
int own_card();
void set_own_card(int index);

/// Waits for all work of the device; throws the Error of an earlier op on it. Does nothing for the CPU.
void synchronize(Device device);
/// The queue of a GPU's work, for libraries that enqueue their own there: a cudaStream_t, whose GPU becomes the current
/// one of this thread. Null for the CPU.
void* queue_of(Device device);
/// Whether the device has finished all of its work; always true for the CPU. May throw the Error of an earlier op.
bool is_idle(Device device);
/// Waits after every op on a GPU, so that an error names its op: slow.
void set_debug_sync(bool on);
/// Versions and GPUs: `CUDA 13.0, driver for 13.0, NVIDIA H200 (sm_90, 151 GB)`. If no GPU can be used, an Error gives
/// the reason.
std::string card_description();

/// Whether models can store activations in bf16 there (engine/bf16.h): true on the CPU, and on GPUs whose tensor cores
/// multiply bf16 (sm_80 and later).
bool stores_bf16(Device device);

/// For tests: from now on, every block of GPU memory is filled with NaN when it is handed out and lies between two
/// guards, which are checked when it is returned. Slow.
void set_card_guards(bool on);
/// The number of blocks so far with a damaged guard, which means a write outside the block.
int64_t broken_card_guards();

}  // namespace bochner
