// cuBLAS, loaded when the first product runs on a card: a run on the CPU does not load its half a gigabyte. Functions
// have the same names and types as in cublas_v2.h.
#pragma once

#include <cublas_v2.h>

namespace bochner::cuda {

struct Cublas {
  decltype(&::cublasCreate_v2) create;
  decltype(&::cublasSetStream_v2) set_stream;
  decltype(&::cublasSetWorkspace_v2) set_workspace;
  decltype(&::cublasSetMathMode) set_math_mode;
  decltype(&::cublasGemmEx_64) gemm;
  decltype(&::cublasGemmStridedBatchedEx_64) gemm_strided;
  decltype(&::cublasGemmBatchedEx_64) gemm_batched;
  decltype(&::cublasGetStatusName) status_name;
  decltype(&::cublasGetStatusString) status_text;
};

/// The library; an Error says where it was searched for.
const Cublas& cublas();

/// An Error unless the code means success.
void check(cublasStatus_t code, const char* what);

}  // namespace bochner::cuda
