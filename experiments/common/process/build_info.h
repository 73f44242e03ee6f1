// The sources and tools that this program was built with, and the machine: for --version and the record of each run.
#pragma once

#include <string>

namespace bochner {

struct BuildInfo {
  std::string version;   ///< `0.1.0`
  std::string commit;    ///< `a1b2c3d4e5f6`, with `-dirty` if files differed; `unknown` outside git
  std::string compiler;  ///< `g++ 12.2.0`
  std::string flags;     ///< `-O3 -march=native ...`
  std::string blas;      ///< `OpenBLAS 0.3.21, core Haswell`
  std::string bf16;      ///< how the CPU multiplies bf16: `tiles, by AMX` (engine/cpu/bf16/product.h)
  std::string cuda;      ///< `yes, ...`, or `no: ` and the reason
};

BuildInfo build_info();

/// One line for --version if OpenBLAS runs kernels for an older CPU than this one, naming both and what to do. Empty if
/// all is well. Runs do not print it: they use OpenBLAS only for factorisations (LAPACK), which take little of their
/// time.
std::string blas_advice();
/// The same, given a core's name, whether OPENBLAS_CORETYPE is set, and the best name for the CPU.
std::string blas_advice(const std::string& core, const char* setting, const std::string& best);

/// What must be equal in processes whose results are to be the same bits, one line for each part, among them the hash
/// of the executable; the file's name is only shown (kOnlyShown in processes.h).
std::string build_lines();

/// The text of --version.
std::string version_text();

}  // namespace bochner
