#include "engine/cuda/device/cublas.h"

#include <dlfcn.h>

#include <string>

#include "engine/error.h"

namespace bochner::cuda {
namespace {

/// Found by name as the system's loader does; otherwise where it was at build time.
void* library() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  if (void* found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  const std::string reason = dlerror();
  if (void* found = dlopen(BOCHNER_CUBLAS, RTLD_NOW | RTLD_LOCAL)) return found;
  fail("cuda: cannot load {}: {}; install cuBLAS of CUDA {}, or name its folder in LD_LIBRARY_PATH", name, reason,
       CUBLAS_VER_MAJOR);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail("cuda: the cuBLAS that was found has no {}", name);
}

Cublas load() {
  void* const from = library();
  Cublas all{};
  find(from, "cublasCreate_v2", all.create);
  find(from, "cublasSetStream_v2", all.set_stream);
  find(from, "cublasSetWorkspace_v2", all.set_workspace);
  find(from, "cublasSetMathMode", all.set_math_mode);
  find(from, "cublasGemmEx_64", all.gemm);
  find(from, "cublasGemmStridedBatchedEx_64", all.gemm_strided);
  find(from, "cublasGemmBatchedEx_64", all.gemm_batched);
  find(from, "cublasGetStatusName", all.status_name);
  find(from, "cublasGetStatusString", all.status_text);
  return all;
}

}  // namespace

const Cublas& cublas() {
  static const Cublas all = load();
  return all;
}

void check(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  fail("{}: cuBLAS says {}: {}", what, cublas().status_name(code), cublas().status_text(code));
}

}  // namespace bochner::cuda
