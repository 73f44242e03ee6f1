// The CUDA backend as the rest of the engine sees it: devices, memory, synchronisation, errors. No CUDA header is
// needed to read this one.
//
// All work of a device goes through one stream, in the order in which ops are called; the host runs ahead and waits
// only when a value is read (Tensor::item, Tensor::to the CPU). So an error inside a kernel appears later than its op:
// it is thrown at the next read, and names the op that raised it if the kernel could tell (an index out of range). With
// set_debug_sync(true) every op is waited for, and every error names its op.
#pragma once

#include <cstdint>
#include <string>

#include "engine/allocator.h"

namespace bochner::cuda {

/// Number of cards that can be used; 0 without a driver.
int device_count();
/// An Error with the reason if there is no such card.
void require_device(int index);
/// `CUDA 13.0, driver for 13.0, NVIDIA H200 (sm_90, 141 GB)`, or why there is none.
std::string description();

Allocator& allocator(int index);
/// Whether that card multiplies bf16.
bool has_bf16(int index);

/// Called around every op: `begin` makes the device the current one of this thread, `end` checks for errors of the
/// launch.
void begin(int index);
void end(const char* op);

/// Waits for all work of the device; throws the Error of an earlier op.
void synchronize(int index);
/// Waits after every op, so that an error names its op. This is slow.
void set_debug_sync(bool on);
bool debug_sync();

/// Separate memory for what is recorded: between make_pool() and drop_pool(), blocks that were handed out while the
/// pool was in use are given to nobody else. Pool 0 is the common one.
int make_pool(int index);
void use_pool(int index, int pool);
void drop_pool(int index, int pool);

/// For tests: from now on every block is handed out full of NaN and between two guards, which are checked when it is
/// given back.
void set_guards(bool on);
bool guards();
/// How many blocks have been found so far with writes outside their bounds.
int64_t broken_guards();

}  // namespace bochner::cuda
