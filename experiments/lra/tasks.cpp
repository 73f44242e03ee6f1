#include "experiments/lra/tasks.h"

namespace bochner::lra {

std::vector<ArenaTask> arena_tasks() {
  return {
      listops_task(),
      pathfinder_task(),
      pathx_task(),
      text_task(),
  };
}

}  // namespace bochner::lra
