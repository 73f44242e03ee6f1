// OpenBLAS, always single-threaded: the engine's own loops divide the work, so that results do not depend on the number
// of threads. It is used for LAPACK. Matrix products are the engine's own (matmul.cpp): on tall, thin matrices they are
// twice as fast, and their bits do not depend on the kernels that OpenBLAS chooses.
#pragma once

#include <cstdint>
#include <string>

namespace bochner::cpu {

/// Call this before any routine of OpenBLAS, in the same thread, so that OpenBLAS starts no threads of its own.
void use_one_blas_thread();

/// The kernels that OpenBLAS chose, e.g. `Zen`.
std::string blas_core();
/// The best one for this CPU among `Haswell`, `SkylakeX` and `Cooperlake`; empty for older CPUs.
std::string best_blas_core();
/// The library's own description of its build.
std::string blas_config();

}  // namespace bochner::cpu
