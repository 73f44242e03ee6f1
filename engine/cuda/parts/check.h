// Return codes of the CUDA runtime, as Errors.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/error.h"

namespace bochner::cuda {

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  fail("{}: CUDA says {}: {}", what, cudaGetErrorName(code), cudaGetErrorString(code));
}

}  // namespace bochner::cuda
