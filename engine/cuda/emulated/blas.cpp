#include "engine/cuda/parts/blas.h"

#include <algorithm>

#include "engine/bf16.h"
#include "engine/cuda/parts/platform.h"
#include "engine/parallel.h"

namespace bochner::cuda {
namespace {

template <class S, class R>
void run(const Gemm& p, const S* a, const S* b, R* c) {
  using T = ComputeType<S>;
  parallel_for(p.m, 16, [&](int64_t begin, int64_t end) {
    std::vector<T> row(static_cast<size_t>(p.n));
    for (int64_t i = begin; i < end; ++i) {
      std::fill(row.begin(), row.end(), T(0));
      for (int64_t k = 0; k < p.k; ++k) {
        const auto left = static_cast<T>(p.transpose_a ? a[k * p.lda + i] : a[i * p.lda + k]);
        const S* right = p.transpose_b ? b + k : b + k * p.ldb;
        const int64_t step = p.transpose_b ? p.ldb : 1;
        for (int64_t j = 0; j < p.n; ++j) row[static_cast<size_t>(j)] += left * static_cast<T>(right[j * step]);
      }
      for (int64_t j = 0; j < p.n; ++j) {
        R& to = c[i * p.ldc + j];
        const T kept = p.beta == 0 ? T(0) : static_cast<T>(p.beta) * static_cast<T>(to);
        to = static_cast<R>(static_cast<T>(p.alpha) * row[static_cast<size_t>(j)] + kept);
      }
    }
  });
}

/// f(type of the factors, type of the result)
template <class F>
void visit_types(DType factors, DType to, const F& f) {
  visit_stored(factors, "matmul",
               [&]<class S>(TypeTag<S> type) { to == factors ? f(type, type) : f(type, TypeTag<ComputeType<S>>{}); });
}

}  // namespace

void gemm(DType factors, DType to, const Gemm& p) {
  visit_types(factors, to, [&]<class S, class R>(TypeTag<S>, TypeTag<R>) {
    platform::submit([=] {
      for (int64_t i = 0; i < p.batch; ++i) {
        run(p, static_cast<const S*>(p.a) + i * p.step_a, static_cast<const S*>(p.b) + i * p.step_b,
            static_cast<R*>(p.c) + i * p.step_c);
      }
    });
  });
}

void gemm_at(DType factors, DType to, const Gemm& p, const std::vector<int64_t>& a_offsets,
             const std::vector<int64_t>& b_offsets) {
  visit_types(factors, to, [&]<class S, class R>(TypeTag<S>, TypeTag<R>) {
    platform::submit([=] {
      for (size_t i = 0; i < a_offsets.size(); ++i) {
        run(p, static_cast<const S*>(p.a) + a_offsets[i], static_cast<const S*>(p.b) + b_offsets[i],
            static_cast<R*>(p.c) + static_cast<int64_t>(i) * p.m * p.n);
      }
    });
  });
}

}  // namespace bochner::cuda
