// Text: is an IMDb review positive? Byte by byte.
#include "datasets/text/text.h"

#include <filesystem>
#include <memory>

#include "experiments/lra/tasks.h"

namespace bochner::lra {
namespace {

struct TextConfig {
  int64_t max_length = 4000;
  text::Split split = text::Split::held_out;
  Partial partial{};

  void fields(Fields& f) {
    f("max-length", max_length, "bytes of the longest sequence; longer reviews are cut").at_least(1);
    f("split", split, text::kSplits,
      "held-out validates on the last tenth of each class of the training set; arena, kl and skyformer on the test "
      "set, as these papers do");
    partial.field(f, "take fewer reviews than the 25,000 + 25,000 published ones");
  }

  text::TaskOptions options(const RunOptions& run) const {
    return {.folder = std::filesystem::path(run.data) / "imdb",
            .max_length = max_length,
            .split = split,
            .partial = partial};
  }
};

}  // namespace

ArenaTask text_task() {
  const auto config = std::make_shared<TextConfig>();
  ArenaTask task;
  task.name = "text";
  task.fields = [config](Fields& f) { f.group("text", *config); };
  task.about = [config](const RunOptions& run) { return text::task(config->options(run)); };
  task.load = [config](const RunOptions& run, const Messages& messages) {
    return text::load_task(config->options(run), messages.say);
  };
  task.baselines = bags_of;
  return task;
}

}  // namespace bochner::lra
