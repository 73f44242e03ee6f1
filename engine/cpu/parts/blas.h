// OpenBLAS, always single-threaded: the engine's own loops share the work out, so that results do not depend on
// threads. LAPACK is what it is for; products of matrices are the engine's own (matmul.cpp), which on tall, thin ones
// are twice as fast and whose bits do not depend on the kernels that OpenBLAS chooses.
#pragma once

#include <cstdint>
#include <string>

namespace bochner::cpu {

/// To be called before any routine of OpenBLAS, in the thread that calls it: it shall not start threads of its own.
void use_one_blas_thread();

/// The kernels that OpenBLAS chose, e.g. `SkylakeX`, and the best ones for this processor.
std::string blas_core();
std::string best_blas_core();
/// The library's own description of its build.
std::string blas_config();

}  // namespace bochner::cpu
