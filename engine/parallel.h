// Parallel loops on the CPU whose results do not depend on the number of threads.
//
// Work is cut into pieces whose bounds depend only on the size of the problem; the threads only share these pieces.
// Reductions keep one partial result per piece and add them in the order of the pieces.
//
// The threads are the engine's own. A loop does not wait for a thread that arrives late, and an idle thread sleeps
// after some microseconds, so a busy machine, or several programs at once, slow a loop down only in proportion.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/math.h"

namespace bochner {

/// The number of threads that parallel loops use: initially OMP_NUM_THREADS if it is set, otherwise one for each core
/// that this process may run on, as after set_threads(0). If OMP_PROC_BIND is set, the first thread that asks is
/// unbound from the place that OpenMP gave it; otherwise all threads would share that place.
int threads();
void set_threads(int count);

namespace parallel {
/// body(context, piece) for every piece in [0, pieces); the first exception of a piece is thrown here. Inside a piece,
/// and while another thread of the program is in a loop, the calling thread does all the work itself.
void run(int64_t pieces, void (*body)(const void* context, int64_t piece), const void* context);
}  // namespace parallel

/// body(begin, end) over pieces of `grain` indices that cover [0, count). An exception in a piece is thrown here.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return;
  const auto piece = [&](int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); };
  parallel::run(
      ceil_div(count, grain),
      [](const void* context, int64_t i) { (*static_cast<const decltype(piece)*>(context))(i); }, &piece);
}

}  // namespace bochner
