// OpenBLAS, always single-threaded: the engine's own loops share the work out, so that results do not depend on
// threads.
#pragma once

#include <cstdint>
#include <string>

namespace bochner::cpu {

/// C (m x n) = alpha op(A) op(B) + beta C, row-major; op transposes where asked. lda, ldb, ldc are row strides as
/// stored.
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

/// To be called, in the thread that calls it, before any routine of OpenBLAS that is not declared here: it shall not
/// start threads of its own.
void use_one_blas_thread();

/// The kernels that OpenBLAS chose, e.g. `SkylakeX`, and the best ones for this processor.
std::string blas_core();
std::string best_blas_core();
/// The library's own description of its build.
std::string blas_config();

}  // namespace bochner::cpu
