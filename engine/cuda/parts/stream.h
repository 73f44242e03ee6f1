// The stream of the current device, for launches.
#pragma once

#include <cuda_runtime_api.h>

namespace bochner::cuda {

cudaStream_t stream();

}  // namespace bochner::cuda
