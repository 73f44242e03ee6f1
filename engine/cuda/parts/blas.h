// Matrix products on the current device: cuBLAS, or loops over OpenBLAS where the backend is emulated.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/dtype.h"

namespace bochner::cuda {

/// C_i = alpha op(A_i) op(B_i) + beta C_i, row-major, i in [0, batch); op transposes on request. lda, ldb and ldc are
/// row strides as stored, and steps are the distances between matrices, all in elements.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t lda = 0, step_a = 0;
  const void* b = nullptr;
  int64_t ldb = 0, step_b = 0;
  void* c = nullptr;
  int64_t ldc = 0, step_c = 0;
  int64_t batch = 1;
  double alpha = 1, beta = 0;
};

/// A and B are of type `factors`, C is of type `to`: f32 or f64 throughout, or bf16 into f32 or bf16, summed in f32.
void gemm(DType factors, DType to, const Gemm& product);
inline void gemm(DType dtype, const Gemm& product) { gemm(dtype, dtype, product); }
/// The same with matrices at element offsets from a and b, and the matrices of C consecutive in memory.
void gemm_at(DType factors, DType to, const Gemm& product, const std::vector<int64_t>& a_offsets,
             const std::vector<int64_t>& b_offsets);

}  // namespace bochner::cuda
