#include "engine/ops/matmul.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "engine/bf16.h"
#include "engine/cuda/parts/blas.h"
#include "engine/cuda/parts/platform.h"
#include "engine/precision.h"

namespace bochner::cuda {
namespace {

/// Runs of the batch along which both offsets grow by a constant step: one call per run.
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

/// Whether all matrices begin at multiples of 16 bytes. If cuBLAS may use tensor cores, it requires this of an array of
/// pointers; the array lies on the card, so cuBLAS cannot see when it does not hold.
bool all_aligned(const Tensor& x, const std::vector<int64_t>& offsets) {
  const auto address = reinterpret_cast<uintptr_t>(x.raw());
  return std::all_of(offsets.begin(), offsets.end(), [&](int64_t offset) {
    return (address + static_cast<uintptr_t>(offset) * size_of(x.dtype())) % 16 == 0;
  });
}

/// A factor as a product reads it: matrices of one layout at element offsets.
struct Factor {
  Tensor x;
  MatrixLayout layout;
  std::vector<int64_t> offsets;
};

/// Whether factors in f32 are to be converted to bf16 before the product. cuBLAS, which may round them as it reads
/// them, takes twice as long as for factors in bf16. What a multiply-add saves (5.6 fs at 357 TFLOP/s, 2.8 fs at 700)
/// is 1/600 of the time to convert a number, which moves 6 bytes; two more kernels take as long as 2^31 multiply-adds
/// save.
bool pays_in_bf16(int64_t m, int64_t n, int64_t k, const Factor& a, const Factor& b) {
  if (precision() != Precision::bf16 || a.x.dtype() != DType::f32 || !platform::has_bf16()) return false;
  if (m % 8 != 0 || n % 8 != 0 || k % 8 != 0) return false;  // tensor cores need 16 bytes
  const double multiplied =
      static_cast<double>(m * n) * static_cast<double>(k * static_cast<int64_t>(a.offsets.size()));
  return multiplied > 600.0 * static_cast<double>(a.x.size() + b.x.size()) + 0x1p31;
}

/// The same in bf16, the matrices without gaps and in their previous layout.
Factor in_bf16(const Factor& factor) {
  const auto stored = [&](const Tensor& x) { return factor.layout.transposed ? x.transpose(-2, -1) : x; };
  const Tensor source = stored(factor.x);
  Factor result{source.cast(DType::bf16).contiguous(), {factor.layout.transposed, source.size(-1)}, {}};
  // Where each matrix of x begins, before and after.
  const Shape batch = source.shape().without_last(2);
  std::unordered_map<int64_t, int64_t> place;
  for (int64_t i = 0; i < batch.size(); ++i) {
    int64_t before = 0;
    int64_t index = i;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      before += index % batch[axis] * source.strides()[axis];
      index /= batch[axis];
    }
    place[before] = i * source.size(-2) * source.size(-1);
  }
  for (const int64_t offset : factor.offsets) result.offsets.push_back(place.at(offset));
  return result;
}

void multiply(int64_t m, int64_t n, int64_t k, const Factor& a, const Factor& b, const Tensor& c) {
  const DType type = a.x.dtype();
  Gemm product{a.layout.transposed,
               b.layout.transposed,
               m,
               n,
               k,
               a.x.raw(),
               a.layout.stride,
               0,
               b.x.raw(),
               b.layout.stride,
               0,
               c.raw(),
               n,
               m * n,
               1,
               1,
               0};
  const std::vector<Run> runs = runs_of(a.offsets, b.offsets);
  const bool plain = type == DType::f64 || (type == DType::f32 && precision() == Precision::f32);
  const bool aligned = plain || (all_aligned(a.x, a.offsets) && all_aligned(b.x, b.offsets) &&
                                 static_cast<size_t>(m * n) * size_of(c.dtype()) % 16 == 0);
  if (runs.size() > kFewRuns && aligned) {
    gemm_at(type, c.dtype(), product, a.offsets, b.offsets);
    return;
  }
  const auto at = [](const Tensor& x, int64_t offset) {
    return static_cast<char*>(x.raw()) + offset * static_cast<int64_t>(size_of(x.dtype()));
  };
  for (const Run& run : runs) {
    product.a = at(a.x, a.offsets[run.begin]);
    product.b = at(b.x, b.offsets[run.begin]);
    product.c = at(c, static_cast<int64_t>(run.begin) * m * n);
    product.step_a = run.step_a;
    product.step_b = run.step_b;
    product.batch = static_cast<int64_t>(run.end - run.begin);
    gemm(type, c.dtype(), product);
  }
}

}  // namespace

void matmul(int64_t m, int64_t n, int64_t k, const Tensor& a, MatrixLayout a_layout,
            const std::vector<int64_t>& a_offsets, const Tensor& b, MatrixLayout b_layout,
            const std::vector<int64_t>& b_offsets, const Tensor& c) {
  visit_stored(c.dtype(), "matmul", []<class T>(TypeTag<T>) {});  // an Error for other types
  const Factor left{a, a_layout, a_offsets};
  const Factor right{b, b_layout, b_offsets};
  if (pays_in_bf16(m, n, k, left, right)) {
    multiply(m, n, k, in_bf16(left), in_bf16(right), c);
  } else {
    multiply(m, n, k, left, right, c);
  }
}

}  // namespace bochner::cuda
