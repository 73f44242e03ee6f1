// What programs need to know about the cards of this machine, whether or not the build has a CUDA backend.
#pragma once

#include <cstdint>
#include <string>

#include "engine/device.h"

namespace bochner {

/// How many cards there are that can be used.
int cards();
/// The card that `cuda` without a number names (Device::named) in this process: 0, unless it is set where several
/// processes share the cards of a machine.
int own_card();
void set_own_card(int index);

/// Waits for all work of the device; an Error of an earlier op on it is thrown here. Does nothing for the CPU.
void synchronize(Device device);
/// Where the work of a card takes its turn, for libraries that put theirs there: a cudaStream_t, whose card becomes the
/// current one of this thread. Null for the CPU.
void* queue_of(Device device);
/// Whether the device has done all of its work; always true for the CPU. An Error of an op may be thrown here.
bool is_idle(Device device);
/// Waits after every op on a card, so that an error names its op: slow.
void set_debug_sync(bool on);
/// Versions and cards: `CUDA 13.0, driver for 13.0, NVIDIA H200 (sm_90, 151 GB)`. If no card can be used, an Error
/// gives the reason.
std::string card_description();

/// Whether models can store activations in bf16 there (engine/bf16.h): on the CPU, and on cards whose tensor cores
/// multiply bf16 (sm_80 and later).
bool stores_bf16(Device device);

/// For tests: from now on every block of a card's memory is handed out full of NaN and between two guards, which are
/// checked when it is returned. Slow.
void set_card_guards(bool on);
/// How many blocks had a damaged guard so far: a write outside the block.
int64_t broken_card_guards();

}  // namespace bochner
