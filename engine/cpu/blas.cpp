#include "engine/cpu/blas.h"

#include <limits>

#include "engine/error.h"

extern "C" {
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc);
void cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha, const double* a,
                 int lda, const double* b, int ldb, double beta, double* c, int ldc);
void openblas_set_num_threads(int count);
char* openblas_get_corename();
char* openblas_get_config();
}

namespace bochner::cpu {
namespace {

constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
constexpr int kTranspose = 112;

int narrow(int64_t value) {
  if (value > std::numeric_limits<int>::max()) fail("matmul: size {} is too large for this BLAS", value);
  return static_cast<int>(value);
}

}  // namespace

// OpenBLAS built on OpenMP asks the calling thread how many threads it may start: each thread has to be told once.
void use_one_blas_thread() {
  [[maybe_unused]] static thread_local const bool done = (openblas_set_num_threads(1), true);
}

void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  use_one_blas_thread();
  cblas_sgemm(kRowMajor, transpose_a ? kTranspose : kNoTranspose, transpose_b ? kTranspose : kNoTranspose, narrow(m),
              narrow(n), narrow(k), alpha, a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  use_one_blas_thread();
  cblas_dgemm(kRowMajor, transpose_a ? kTranspose : kNoTranspose, transpose_b ? kTranspose : kNoTranspose, narrow(m),
              narrow(n), narrow(k), alpha, a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

std::string blas_core() { return openblas_get_corename(); }

std::string best_blas_core() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bf16")) return "Cooperlake";
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return "SkylakeX";
  return "Haswell";
}

std::string blas_config() { return openblas_get_config(); }

}  // namespace bochner::cpu
