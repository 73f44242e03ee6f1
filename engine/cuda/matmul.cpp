#include "engine/ops/matmul.h"

#include <algorithm>
#include <cstdint>

#include "engine/bf16.h"
#include "engine/cuda/parts/blas.h"
#include "engine/precision.h"

namespace bochner::cuda {
namespace {

/// Runs of the batch along which both offsets grow by a constant step: one call each.
struct Run {
  size_t begin, end;
  int64_t step_a, step_b;
};

std::vector<Run> runs_of(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<Run> runs;
  for (size_t i = 0; i < a.size();) {
    Run run{i, i + 1, 0, 0};
    if (i + 1 < a.size()) {
      run.step_a = a[i + 1] - a[i];
      run.step_b = b[i + 1] - b[i];
      while (run.end < a.size() && a[run.end] - a[run.end - 1] == run.step_a &&
             b[run.end] - b[run.end - 1] == run.step_b) {
        ++run.end;
      }
    }
    runs.push_back(run);
    i = run.end;
  }
  return runs;
}

constexpr size_t kFewRuns = 4;

/// Whether all matrices begin at multiples of 16 bytes. Where cuBLAS may use tensor cores it needs that of an array of
/// pointers, which lies on the card, so that it cannot see where it does not hold.
bool all_aligned(const Tensor& x, const std::vector<int64_t>& offsets) {
  const auto address = reinterpret_cast<uintptr_t>(x.raw());
  return std::all_of(offsets.begin(), offsets.end(), [&](int64_t offset) {
    return (address + static_cast<uintptr_t>(offset) * size_of(x.dtype())) % 16 == 0;
  });
}

}  // namespace

void matmul(int64_t m, int64_t n, int64_t k, const Tensor& a, MatrixLayout a_layout,
            const std::vector<int64_t>& a_offsets, const Tensor& b, MatrixLayout b_layout,
            const std::vector<int64_t>& b_offsets, const Tensor& c) {
  Gemm product{a_layout.transposed,
               b_layout.transposed,
               m,
               n,
               k,
               a.raw(),
               a_layout.stride,
               0,
               b.raw(),
               b_layout.stride,
               0,
               c.raw(),
               n,
               m * n,
               1,
               1,
               0};
  visit_stored(c.dtype(), "matmul", [&]<class T>(TypeTag<T>) {
    const std::vector<Run> runs = runs_of(a_offsets, b_offsets);
    const bool plain = c.dtype() == DType::f64 || (c.dtype() == DType::f32 && precision() == Precision::f32);
    const bool aligned = plain || (all_aligned(a, a_offsets) && all_aligned(b, b_offsets) &&
                                   static_cast<size_t>(m * n) * size_of(c.dtype()) % 16 == 0);
    if (runs.size() > kFewRuns && aligned) {
      gemm_at(c.dtype(), product, a_offsets, b_offsets);
      return;
    }
    for (const Run& run : runs) {
      product.a = a.data<T>() + a_offsets[run.begin];
      product.b = b.data<T>() + b_offsets[run.begin];
      product.c = c.data<T>() + static_cast<int64_t>(run.begin) * m * n;
      product.step_a = run.step_a;
      product.step_b = run.step_b;
      product.batch = static_cast<int64_t>(run.end - run.begin);
      gemm(c.dtype(), product);
    }
  });
}

}  // namespace bochner::cuda
