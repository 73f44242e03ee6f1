// What programs need to know about the cards of this machine, whether or not the build has a CUDA backend.
#pragma once

#include <cstdint>
#include <string>

#include "engine/device.h"

namespace bochner {

/// Waits for all work of the device; an Error of an earlier op on it is thrown here. Does nothing for the CPU.
void synchronize(Device device);
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
