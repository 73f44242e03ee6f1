// Parallel loops on the CPU whose results do not depend on the number of threads.
//
// Work is cut into pieces whose bounds follow from the size of the problem alone; threads only share the pieces out.
// Reductions keep one partial result per piece and add them in the order of the pieces.
//
// The threads are the engine's own. One that comes late to a loop is not waited for, and one with nothing to do sleeps
// after some microseconds: a busy machine, or several programs at once, slow a loop down in proportion and no more.
#pragma once

#include <algorithm>
#include <cstdint>

namespace bochner {

/// Number of threads that parallel loops use: at first OMP_NUM_THREADS where it is set, else one per core that this
/// process may run on, which set_threads(0) chooses too.
int threads();
void set_threads(int count);

namespace parallel {
/// body(context, piece) for every piece in [0, pieces); the first exception of a piece is thrown here. Inside a piece,
/// and while another thread of the program is in a loop, the calling thread does all the work by itself.
void run(int64_t pieces, void (*body)(const void* context, int64_t piece), const void* context);
}  // namespace parallel

/// body(begin, end) over pieces of `grain` indices that cover [0, count). An exception in a piece is thrown here.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return;
  const auto piece = [&](int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); };
  parallel::run((count + grain - 1) / grain,
                [](const void* context, int64_t i) { (*static_cast<const decltype(piece)*>(context))(i); }, &piece);
}

}  // namespace bochner
