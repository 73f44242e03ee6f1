// Return codes of the CUDA libraries, as Errors.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "engine/error.h"

namespace bochner::cuda {

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  fail("{}: CUDA says {}: {}", what, cudaGetErrorName(code), cudaGetErrorString(code));
}

inline void check(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  fail("{}: cuBLAS says {}: {}", what, cublasGetStatusName(code), cublasGetStatusString(code));
}

}  // namespace bochner::cuda
