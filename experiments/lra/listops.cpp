// ListOps, generated if its files are missing.
#include "datasets/listops/listops.h"

#include <filesystem>
#include <memory>

#include "datasets/baselines.h"
#include "experiments/lra/tasks.h"

namespace bochner::lra {
namespace {

struct ListopsConfig {
  listops::Tokenisation tokenisation = listops::Tokenisation::fixed;
  int64_t max_length = 2000;
  // For the generator; the defaults are the Long Range Arena's.
  int64_t min_tokens = 500;
  int64_t max_tokens = 2000;
  int64_t train_examples = 96000;
  int64_t valid_examples = 2000;
  int64_t test_examples = 2000;
  uint64_t data_seed = 0;
  bool found = false;

  void fields(Fields& f) {
    f("tokenisation", tokenisation, listops::kTokenisations,
      "fixed keeps closing brackets; released, SKY's, loses them");
    f("max-length", max_length, "longest sequence; longer ones are cut").at_least(1);
    const auto makes_files = [this] { return !found; };
    f("min-tokens", min_tokens, "generated expressions are longer than this")
        .at_least(0)
        .at_most(1000000)
        .only("without --listops.found", makes_files);
    f("max-tokens", max_tokens, "generated expressions are shorter than this")
        .at_least(2)
        .at_most(1000000)
        .only("without --listops.found", makes_files);
    f("train-examples", train_examples, "expressions to generate for training").at_least(1).at_most(10000000);
    f("valid-examples", valid_examples, "for choosing the best checkpoint").at_least(1).at_most(10000000);
    f("test-examples", test_examples, "for the result").at_least(1).at_most(10000000);
    f("data-seed", data_seed, "seed of the generator of expressions").only("without --listops.found", makes_files);
    f("found", found,
      "take the three files of the folder listops as they are, without a manifest, or those of the arena's archive "
      "lra_release.gz; the examples are then counted");
  }

  /// With `found`, sets the numbers of examples to those in the files; an Error if a setting asks for something else.
  void state_found(const TaskData& data) {
    if (!found) return;
    const ListopsConfig untouched;
    const auto state = [](const char* name, int64_t& asked, int64_t usual, int64_t there) {
      if (asked != usual && asked != there) {
        fail("listops.{}: {} are asked for, but the file that was found holds {}; leave it out", name, asked, there);
      }
      asked = there;
    };
    state("train-examples", train_examples, untouched.train_examples, data.train->size());
    state("valid-examples", valid_examples, untouched.valid_examples, data.valid->size());
    state("test-examples", test_examples, untouched.test_examples, data.test->size());
  }

  listops::TaskOptions options(const RunOptions& run) const {
    listops::TaskOptions options;
    options.generator.min_length = min_tokens;
    options.generator.max_length = max_tokens;
    options.generator.train = train_examples;
    options.generator.valid = valid_examples;
    options.generator.test = test_examples;
    options.generator.seed = data_seed;
    const bool official = options.generator == listops::GeneratorOptions{};
    const std::string folder = official ? "listops" : fmt::format("listops-{}-{}", min_tokens, max_tokens);
    options.place = found ? listops::find(run.data) : ArenaFolder{std::filesystem::path(run.data) / folder};
    options.read.tokenisation = tokenisation;
    options.read.max_length = max_length;
    options.found = found;
    return options;
  }
};

}  // namespace

ArenaTask listops_task() {
  const auto config = std::make_shared<ListopsConfig>();
  ArenaTask task;
  task.name = "listops";
  task.fields = [config](Fields& f) {
    f.group("listops", *config);
    f.then([config](const Fields&) {
      if (config->max_tokens >= config->min_tokens + 2) return;
      fail("--listops.max-tokens={} leaves no length between it and --listops.min-tokens={}", config->max_tokens,
           config->min_tokens);
    });
  };
  task.about = [config](const RunOptions& run) { return listops::task(config->options(run)); };
  task.load = [config](const RunOptions& run, const Messages& messages) {
    TaskData data = listops::load_task(config->options(run), messages.say);
    config->state_found(data);
    return data;
  };
  task.baselines = [](const TaskData& data) -> std::vector<Baseline> {
    return {{"best guess from the first operator", {{"accuracy", first_token_accuracy(*data.train, *data.test)}}}};
  };
  return task;
}

}  // namespace bochner::lra
