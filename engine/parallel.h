// Parallel loops on the CPU whose results do not depend on the number of threads.
//
// Work is cut into pieces whose bounds follow from the size of the problem alone; threads only share the pieces out.
// Reductions keep one partial result per piece and add them in the order of the pieces.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace bochner {

/// Number of threads that parallel loops use; set_threads(0) chooses one per core.
int threads();
void set_threads(int count);

/// body(begin, end) over pieces of `grain` indices that cover [0, count). An exception in a piece is thrown here.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return;
  const int64_t pieces = (count + grain - 1) / grain;
  if (pieces == 1 || threads() == 1 || omp_in_parallel() != 0) {
    for (int64_t i = 0; i < pieces; ++i) body(i * grain, std::min(count, (i + 1) * grain));
    return;
  }
  std::exception_ptr failure;
  const int team = static_cast<int>(std::min<int64_t>(pieces, threads()));
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (int64_t i = 0; i < pieces; ++i) {
    try {
      body(i * grain, std::min(count, (i + 1) * grain));
    } catch (...) {
#pragma omp critical(bochner_parallel_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace bochner
