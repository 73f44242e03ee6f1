// cuBLAS is column-major: our row-major C (m x n) is its C^T, so it computes C^T = op(B)^T op(A)^T.
#include "engine/cuda/parts/blas.h"

#include <mutex>

#include "engine/cuda/device/cublas.h"
#include "engine/cuda/parts/check.h"
#include "engine/cuda/parts/platform.h"
#include "engine/cuda/parts/stream.h"
#include "engine/precision.h"
#include "engine/tensor.h"

namespace bochner::cuda {
namespace {

constexpr int kMost = 64;
constexpr size_t kWorkspace = size_t{32} << 20;

/// The handle of the current device, bound to its stream. It is never destroyed, since the driver may be gone by then.
cublasHandle_t handle() {
  static std::mutex mutex;
  static cublasHandle_t handles[kMost] = {};
  const int index = platform::current();
  const std::lock_guard lock(mutex);
  if (handles[index] == nullptr) {
    cublasHandle_t made = nullptr;
    check(cublas().create(&made), "matmul");
    check(cublas().set_stream(made, stream()), "matmul");
    // Otherwise parts of a product whose result is bf16 may be added in bf16.
    check(cublas().set_math_mode(
              made, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
          "matmul");
    // With our own workspace, every run gives equal bits, and nothing is allocated within a step.
    void* workspace = nullptr;
    check(cudaMalloc(&workspace, kWorkspace), "matmul");
    check(cublas().set_workspace(made, workspace, kWorkspace), "matmul");
    handles[index] = made;
  }
  return handles[index];
}

cublasComputeType_t compute_type(DType factors) {
  if (factors == DType::f64) return CUBLAS_COMPUTE_64F;
  if (factors == DType::bf16) return CUBLAS_COMPUTE_32F;
  switch (precision()) {
    case Precision::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case Precision::bf16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case Precision::f32:
      break;
  }
  return CUBLAS_COMPUTE_32F;
}

struct Scalars {
  double f64[2];
  float f32[2];
  bool is_f64;

  Scalars(DType dtype, const Gemm& p)
      : f64{p.alpha, p.beta},
        f32{static_cast<float>(p.alpha), static_cast<float>(p.beta)},
        is_f64(dtype == DType::f64) {}
  const void* alpha() const { return is_f64 ? static_cast<const void*>(f64) : f32; }
  const void* beta() const { return is_f64 ? static_cast<const void*>(f64 + 1) : f32 + 1; }
};

cudaDataType_t type_of(DType dtype) {
  if (dtype == DType::bf16) return CUDA_R_16BF;
  return dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
}

cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

void gemm(DType factors, DType to, const Gemm& p) {
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  const Scalars scalars(factors, p);
  const cudaDataType_t type = type_of(factors);
  if (p.batch == 1) {
    check(cublas().gemm(handle(), operation(p.transpose_b), operation(p.transpose_a), p.n, p.m, p.k, scalars.alpha(),
                        p.b, type, p.ldb, p.a, type, p.lda, scalars.beta(), p.c, type_of(to), p.ldc,
                        compute_type(factors), CUBLAS_GEMM_DEFAULT),
          "matmul");
    return;
  }
  check(cublas().gemm_strided(handle(), operation(p.transpose_b), operation(p.transpose_a), p.n, p.m, p.k,
                              scalars.alpha(), p.b, type, p.ldb, p.step_b, p.a, type, p.lda, p.step_a, scalars.beta(),
                              p.c, type_of(to), p.ldc, p.step_c, p.batch, compute_type(factors), CUBLAS_GEMM_DEFAULT),
        "matmul");
}

void gemm_at(DType factors, DType to, const Gemm& p, const std::vector<int64_t>& a_offsets,
             const std::vector<int64_t>& b_offsets) {
  const size_t batch = a_offsets.size();
  const auto bytes = static_cast<int64_t>(size_of(factors));
  std::vector<int64_t> addresses(3 * batch);
  for (size_t i = 0; i < batch; ++i) {
    addresses[i] = reinterpret_cast<int64_t>(p.a) + a_offsets[i] * bytes;
    addresses[batch + i] = reinterpret_cast<int64_t>(p.b) + b_offsets[i] * bytes;
    addresses[2 * batch + i] =
        reinterpret_cast<int64_t>(p.c) + static_cast<int64_t>(i) * p.m * p.n * static_cast<int64_t>(size_of(to));
  }
  const Tensor table = Tensor::empty({static_cast<int64_t>(3 * batch)}, DType::i64, Device::cuda(platform::current()));
  platform::upload_constant(addresses.data(), table.raw(), addresses.size() * sizeof(int64_t));
  auto** pointers = static_cast<void**>(table.raw());
  const Scalars scalars(factors, p);
  const cudaDataType_t type = type_of(factors);
  check(cublas().gemm_batched(handle(), operation(p.transpose_b), operation(p.transpose_a), p.n, p.m, p.k,
                              scalars.alpha(), pointers + batch, type, p.ldb, pointers, type, p.lda, scalars.beta(),
                              pointers + 2 * batch, type_of(to), p.ldc, static_cast<int64_t>(batch),
                              compute_type(factors), CUBLAS_GEMM_DEFAULT),
        "matmul");
}

}  // namespace bochner::cuda
