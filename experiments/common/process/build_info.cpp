#include "experiments/common/process/build_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "bochner_build.h"  // written by CMake
#include "engine/card.h"
#include "engine/comm/nccl.h"
#include "engine/cpu/bf16/product.h"
#include "engine/cpu/parts/blas.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/io/xxh3.h"
#include "engine/parallel.h"
#include "experiments/common/process/mpi.h"
#include "experiments/common/process/processes.h"

namespace bochner {
namespace {

/// Core types in order of vector width: 128 bits, 256 bits, 512 bits, 512 bits with bf16.
int width_class(std::string_view core) {
  constexpr std::array kWide = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  constexpr std::array kMiddle = {"Haswell",    "Zen",       "Excavator",  "Steamroller",
                                  "Piledriver", "Bulldozer", "Sandybridge"};
  if (core == "Cooperlake" || core == "SapphireRapids") return 3;
  if (std::find(kWide.begin(), kWide.end(), core) != kWide.end()) return 2;
  return std::find(kMiddle.begin(), kMiddle.end(), core) != kMiddle.end() ? 1 : 0;
}

/// `OpenBLAS 0.3.21` from `OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH USE_OPENMP Haswell MAX_THREADS=128`.
std::string library_version(const std::string& config) {
  std::istringstream words(config);
  std::string name;
  std::string version;
  words >> name >> version;
  return name + " " + version;
}

std::string cuda_text() {
  try {
    return "yes, " + card_description();
  } catch (const Error& error) {
    std::string_view reason = error.what();
    constexpr std::string_view kPrefix = "device: cuda: ";
    if (reason.starts_with(kPrefix)) reason.remove_prefix(kPrefix.size());
    return fmt::format("no: {}", reason);
  }
}

}  // namespace

BuildInfo build_info() {
  return {.version = BOCHNER_BUILD_VERSION,
          .commit = BOCHNER_BUILD_COMMIT,
          .compiler = BOCHNER_BUILD_COMPILER,
          .flags = BOCHNER_BUILD_FLAGS,
          .blas = fmt::format("{}, core {}", library_version(cpu::blas_config()), cpu::blas_core()),
          .bf16 = cpu::bf16_description(),
          .cuda = cuda_text()};
}

std::string blas_advice(const std::string& core, const char* setting, const std::string& best) {
  // Cooperlake's kernels differ from SkylakeX's only in bf16, for which OpenBLAS is not used.
  if (std::min(width_class(best), 2) <= std::min(width_class(core), 2)) return "";
  const std::string why = setting == nullptr ? "OpenBLAS took this CPU for a lesser one"
                                             : fmt::format("OPENBLAS_CORETYPE={} is set", setting);
  const std::string way_out = setting == nullptr ? fmt::format("set OPENBLAS_CORETYPE={}", best) : "unset it";
  return fmt::format("OpenBLAS, which factors matrices here, uses {} kernels where the CPU could use {}: {}; {}", core,
                     best, why, way_out);
}

std::string blas_advice() {
  return blas_advice(cpu::blas_core(), std::getenv("OPENBLAS_CORETYPE"), cpu::best_blas_core());
}

std::string build_lines() {
  const BuildInfo info = build_info();
  const std::string order = info.bf16.substr(0, info.bf16.find(','));  // by which instructions changes no bit
  const std::filesystem::path own = "/proc/self/exe";
  const std::string executable =
      fmt::format("XXH3-128 {}{}{}", xxh3_of_file(own), kOnlyShown, std::filesystem::read_symlink(own).string());
  return fmt::format("version {}\ncommit {}\ncompiler {}\nflags {}\n{}\nbf16 {}\n{}\n", info.version, info.commit,
                     info.compiler, info.flags, info.blas, order, executable);
}

std::string version_text() {
  const BuildInfo info = build_info();
  std::string text = fmt::format(
      "bochner {} ({})\ncompiler: {}, {}\nBLAS:     {} ({})\nbf16:     {}\nCUDA:     {}\nMPI:      {}\nNCCL:     "
      "{}\nthreads:  {}\n",
      info.version, info.commit, info.compiler, info.flags, info.blas, cpu::blas_config(), info.bf16, info.cuda,
      mpi_version(), nccl_version(), threads());
  const std::string advice = blas_advice();
  if (!advice.empty()) text += advice + "\n";
  return text;
}

}  // namespace bochner
