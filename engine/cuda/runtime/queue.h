// The one stream of a device, for libraries that add their own work to it (engine/comm/nccl.h).
#pragma once

namespace bochner::cuda {

/// Makes the device the current one of this thread; returns its stream, a cudaStream_t.
void* queue(int index);
/// Whether the device has finished all the work in its stream. An Error if a kernel has failed.
bool is_idle(int index);

}  // namespace bochner::cuda
