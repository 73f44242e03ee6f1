#include "experiments/common/process/start.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "engine/sanitizer.h"

namespace bochner {
namespace {

/// The bytes that OpenBLAS maps for each of its threads in its constructor (its BUFFER_SIZE on x86-64).
constexpr size_t kBlasBuffer = size_t{128} << 20;

/// The number in an environment variable such as OMP_NUM_THREADS; 0 if there is none.
int threads_of(char** environment, const char* name) {
  const size_t length = std::strlen(name);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
      return std::atoi(*environment + length + 1);  // NOLINT: runs before libraries are ready, 0 is an answer
    }
  }
  return 0;
}

/// The threads for which OpenBLAS's constructor allots buffers: one for each processor of the machine, even those that
/// this process may not use, unless OpenMP is to use fewer. Debian builds it for at most 128.
int blas_threads(char** environment) {
  const auto all = static_cast<int>(std::clamp(sysconf(_SC_NPROCESSORS_CONF), 1L, 128L));
  const int asked = threads_of(environment, "OMP_NUM_THREADS");
  return asked > 0 ? std::min(asked, all) : all;
}

bool is_limited(int resource) {
  rlimit limit{};
  return getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// The code below runs before the constructors of the libraries, so nothing there may need one.

[[noreturn]] void leave(const char* message) {
  if (write(STDERR_FILENO, message, std::strlen(message)) < 0) _exit(1);
  _exit(1);
}

/// Checks that this processor has the instructions that the program was compiled for: -march=native takes those of the
/// build machine. The function itself needs none of them.
[[maybe_unused, gnu::target("no-avx")]] void check_processor(int, char**, char**) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool has_all = true;
#if defined(__AVX__)
  has_all = has_all && __builtin_cpu_supports("avx");
#endif
#if defined(__AVX2__)
  has_all = has_all && __builtin_cpu_supports("avx2");
#endif
#if defined(__FMA__)
  has_all = has_all && __builtin_cpu_supports("fma");
#endif
#if defined(__BMI2__)
  has_all = has_all && __builtin_cpu_supports("bmi2");
#endif
#if defined(__AVX512F__)
  has_all = has_all && __builtin_cpu_supports("avx512f");
#endif
#if defined(__AVX512BW__)
  has_all = has_all && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
#endif
#if defined(__AVX512VBMI2__)
  has_all = has_all && __builtin_cpu_supports("avx512vbmi2");
#endif
#if defined(__AVX512BF16__)
  has_all = has_all && __builtin_cpu_supports("avx512bf16");
#endif
#if defined(__AVX512VP2INTERSECT__)
  has_all = has_all && __builtin_cpu_supports("avx512vp2intersect");
#endif
  if (has_all) return;
  leave(
      "error: this program was compiled for a processor with more instructions than this one has; build it here, or "
      "for all machines with -DBOCHNER_ARCH=x86-64-v3 (cmake)\n");
#endif
}

[[maybe_unused]] void check_address_space(int, char**, char** environment) {
  if (!is_limited(RLIMIT_AS) && !is_limited(RLIMIT_DATA)) return;
  std::array<void*, 128> maps{};
  const int threads = blas_threads(environment);
  int mapped = 0;
  for (; mapped < threads; ++mapped) {
    void* const map =
        mmap(nullptr, kBlasBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) break;
    maps[static_cast<size_t>(mapped)] = map;
  }
  for (int i = 0; i < mapped; ++i) munmap(maps[static_cast<size_t>(i)], kBlasBuffer);
  if (mapped == threads) return;
  leave(
      "error: the limit on memory (ulimit -v or -d) is too low: OpenBLAS needs 128 MiB for each thread; raise it, or "
      "set OMP_NUM_THREADS=1\n");
}

#if !BOCHNER_ADDRESS_SANITIZER
__attribute__((section(".preinit_array"), used)) void (*const checks[])(int, char**, char**) = {check_processor,
                                                                                                check_address_space};
#endif

}  // namespace

void start_process() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDWR);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

}  // namespace bochner
