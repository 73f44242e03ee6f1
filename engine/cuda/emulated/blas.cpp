#include "engine/cuda/blas.h"

#include "engine/cpu/blas.h"

namespace bochner::cuda {
namespace {

template <class T>
void run(const Gemm& p, int64_t a, int64_t b, int64_t c) {
  cpu::gemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, static_cast<T>(p.alpha), static_cast<const T*>(p.a) + a, p.lda,
            static_cast<const T*>(p.b) + b, p.ldb, static_cast<T>(p.beta), static_cast<T*>(p.c) + c, p.ldc);
}

}  // namespace

void gemm(DType dtype, const Gemm& p) {
  visit_floating(dtype, "matmul", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < p.batch; ++i) run<T>(p, i * p.step_a, i * p.step_b, i * p.step_c);
  });
}

void gemm_at(DType dtype, const Gemm& p, const std::vector<int64_t>& a_offsets, const std::vector<int64_t>& b_offsets) {
  visit_floating(dtype, "matmul", [&]<class T>(TypeTag<T>) {
    for (size_t i = 0; i < a_offsets.size(); ++i)
      run<T>(p, a_offsets[i], b_offsets[i], static_cast<int64_t>(i) * p.m * p.n);
  });
}

}  // namespace bochner::cuda
