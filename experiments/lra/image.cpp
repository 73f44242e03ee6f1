// Image: which of ten objects does a grey CIFAR-10 picture show? Pixel by pixel.
#include <filesystem>
#include <memory>

#include "datasets/images/cifar10.h"
#include "experiments/lra/tasks.h"

namespace bochner::lra {
namespace {

struct ImageConfig {
  Partial partial{};
  bool mask_black = false;

  void fields(Fields& f) {
    f("mask-black", mask_black, "take black pixels for padding, as the code of the arena and of SKY does");
    partial.field(f, "take fewer training images than the 50,000 published ones; fewer test images always are");
  }
};

}  // namespace

ArenaTask image_task() {
  const auto config = std::make_shared<ImageConfig>();
  ArenaTask task;
  task.name = "image";
  task.fields = [config](Fields& f) { f.group("image", *config); };
  const auto about = [config] {
    Task made = images::task();
    made.masks_zeros = config->mask_black;
    return made;
  };
  task.about = [about](const RunOptions&) { return about(); };
  task.load = [config, about](const RunOptions& run, const Messages& messages) {
    const std::filesystem::path folder = std::filesystem::path(run.data) / "cifar10";
    TaskData data = images::load_task({.folder = folder, .partial = config->partial}, messages.say);
    data.task = about();
    return data;
  };
  return task;
}

}  // namespace bochner::lra
