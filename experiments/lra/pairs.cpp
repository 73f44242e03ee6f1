// Retrieval: does one paper cite the other? Films: are two reviews about the same film? Two documents, byte by byte.
#include <filesystem>
#include <memory>

#include "datasets/pairs/aan.h"
#include "datasets/pairs/films.h"
#include "experiments/lra/tasks.h"

namespace bochner::lra {
namespace {

struct RetrievalConfig {
  int64_t max_length = 4000;
  Partial partial{};

  void fields(Fields& f) {
    f("max-length", max_length, "bytes of the longest document; longer ones are cut").at_least(1).at_most(10000);
    partial.field(f, "take fewer pairs than the published ones");
  }

  pairs::AanOptions options(const RunOptions& run) const {
    return {.place = pairs::find_aan(run.data), .max_length = max_length, .partial = partial};
  }
};

struct FilmsConfig {
  int64_t max_length = 4000;
  int64_t rounds = pairs::FilmsOptions{}.rounds;
  uint64_t data_seed = 0;
  int64_t valid_examples = 0;
  int64_t test_examples = 0;
  Partial partial{};

  void fields(Fields& f) {
    f("max-length", max_length, "bytes of the longest review; longer ones are cut").at_least(1);
    f("rounds", rounds, "how often each review for training is paired with another of its film")
        .at_least(1)
        .at_most(30);
    f("data-seed", data_seed, "seed of the pairs");
    f("valid-examples", valid_examples, "pairs for validation, drawn at random from all; 0: all").at_least(0);
    f("test-examples", test_examples, "pairs for the test, drawn at random from all; 0: all").at_least(0);
    partial.field(f, "take fewer reviews than the published ones");
  }

  pairs::FilmsTaskOptions options(const RunOptions& run) const {
    return {.imdb = std::filesystem::path(run.data) / "imdb",
            .films = {.seed = data_seed, .rounds = rounds, .partial = partial},
            .max_length = max_length,
            .valid_examples = valid_examples,
            .test_examples = test_examples};
  }
};

template <class Config, class About, class Load>
ArenaTask task_of(const char* name, About about, Load load) {
  const auto config = std::make_shared<Config>();
  ArenaTask task;
  task.name = name;
  task.fields = [config, name](Fields& f) { f.group(name, *config); };
  task.about = [config, about](const RunOptions& run) { return about(config->options(run)); };
  task.load = [config, load](const RunOptions& run, const Messages& messages) {
    return load(config->options(run), messages.say);
  };
  task.baselines = bags_of;
  return task;
}

}  // namespace

ArenaTask retrieval_task() { return task_of<RetrievalConfig>("retrieval", pairs::aan_task, pairs::load_aan); }
ArenaTask films_task() { return task_of<FilmsConfig>("films", pairs::films_task, pairs::load_films); }

}  // namespace bochner::lra
