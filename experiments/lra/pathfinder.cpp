// Pathfinder (32 x 32 pixels, or another size) and Path-X (128 x 128): do two discs lie on the same contour? The images
// are the published ones, or those of `./run data make pathfinder`.
#include "datasets/pathfinder/pathfinder.h"

#include <memory>

#include "experiments/lra/tasks.h"

namespace bochner::lra {
namespace {

struct PathfinderConfig {
  int64_t size = 32;
  bool one_size = false;
  std::string difficulty = "hard";
  pathfinder::Split split = pathfinder::Split::arena;
  uint64_t split_seed = 0;
  Partial partial{};
  bool mask_black = false;

  void fields(Fields& f) {
    f("mask-black", mask_black, "take black pixels for padding, as the code of the arena and of SKY does");
    if (!one_size) {
      f("size", size,
        "pixels of a side: 32 is the arena's; 16, 20, 24 and 28 are ours and easier; there are 64, 128 and 256, too")
          .at_least(16)
          .at_most(256);
    }
    f("difficulty", difficulty,
      "easy, intermediate or hard (what the papers report): contours of 6, 9 or 14 dashes, at size 16 of 3, 4 or 5, "
      "in between as many as lie between; or a number of dashes");
    f("split", split, pathfinder::kSplits,
      "arena takes 80, 10 and 10 % of the images in their order; shuffled, as SKY does, in a random one");
    f("split-seed", split_seed, "seed of the shuffled split");
    partial.field(f, "take fewer images than the 200,000 published ones, or than the manifest tells of");
  }

  pathfinder::TaskOptions options(const RunOptions& run) const {
    const int64_t dashes = pathfinder::dashes_of(size, difficulty);
    pathfinder::check({.size = size, .dashes = dashes});
    return {.place = pathfinder::find(run.data, size, dashes),
            .read = {.size = size, .partial = partial},
            .split = split,
            .seed = split_seed,
            .make = pathfinder::make_command(size, difficulty, run.data)};
  }
  Task about(const RunOptions& run) const {
    Task task = pathfinder::task(options(run));
    task.masks_zeros = mask_black;
    return task;
  }
};

ArenaTask task_of(const std::string& name, int64_t size, bool one_size) {
  const auto config = std::make_shared<PathfinderConfig>(PathfinderConfig{.size = size, .one_size = one_size});
  ArenaTask task;
  task.name = name;
  task.fields = [config, name](Fields& f) { f.group(name, *config); };
  task.about = [config](const RunOptions& run) { return config->about(run); };
  task.load = [config](const RunOptions& run, const Messages& messages) {
    TaskData data = pathfinder::load_task(config->options(run), messages.say);
    data.task = config->about(run);
    return data;
  };
  return task;
}

}  // namespace

ArenaTask pathfinder_task() { return task_of("pathfinder", 32, false); }
ArenaTask pathx_task() { return task_of("pathx", 128, true); }

}  // namespace bochner::lra
