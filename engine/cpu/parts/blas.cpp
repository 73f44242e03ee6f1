#include "engine/cpu/parts/blas.h"

extern "C" {
void openblas_set_num_threads(int count);
char* openblas_get_corename();
char* openblas_get_config();
}

namespace bochner::cpu {

// OpenBLAS built on OpenMP asks the calling thread how many threads it may start, so each thread has to be told once.
void use_one_blas_thread() {
  [[maybe_unused]] static thread_local const bool done = (openblas_set_num_threads(1), true);
}

std::string blas_core() { return openblas_get_corename(); }

std::string best_blas_core() {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                    __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (wide && __builtin_cpu_supports("avx512bf16") != 0) return "Cooperlake";
  if (wide) return "SkylakeX";
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) return "Haswell";
#endif
  return "";
}

std::string blas_config() { return openblas_get_config(); }

}  // namespace bochner::cpu
