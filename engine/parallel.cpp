#include "engine/parallel.h"

#include "engine/error.h"

namespace bochner {
namespace {

int& team_size() {
  static int count = omp_get_max_threads();
  return count;
}

}  // namespace

int threads() { return team_size(); }

void set_threads(int count) {
  if (count < 0) fail("threads: {} is negative; 0 chooses one per core", count);
  team_size() = count == 0 ? omp_get_num_procs() : count;
}

}  // namespace bochner
