// Image: which of ten things does a grey picture of CIFAR-10 show? Pixel by pixel.
#include <filesystem>
#include <memory>

#include "datasets/images/cifar10.h"
#include "experiments/lra/tasks.h"

namespace bochner::lra {
namespace {

struct ImageConfig {
  bool partial = false;

  void fields(Fields& f) {
    f("partial", partial, "take fewer training images than the 50,000 published ones; fewer test images always are");
  }
};

}  // namespace

ArenaTask image_task() {
  const auto config = std::make_shared<ImageConfig>();
  ArenaTask task;
  task.name = "image";
  task.fields = [config](Fields& f) { f.group("image", *config); };
  task.about = [](const RunOptions&) { return images::task(); };
  task.load = [config](const RunOptions& run, const Messages& messages) {
    const std::filesystem::path folder = std::filesystem::path(run.data) / "cifar10";
    return images::load_task({.folder = folder, .partial = config->partial}, messages.say);
  };
  return task;
}

}  // namespace bochner::lra
