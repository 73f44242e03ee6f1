// Long Range Arena: trains a sequence classifier with any attention of the registry and tests it.
#include <fmt/format.h>

#include "datasets/baselines.h"
#include "experiments/lra/training.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(lra::Config& config, Session& session) {
  const std::string preset = config.run.preset.empty() ? "custom" : config.run.preset;
  const std::filesystem::path folder =
      !config.run.out.empty() ? std::filesystem::path(config.run.out)
                              : std::filesystem::path("runs") / "lra" /
                                    fmt::format("{}-{}-{}-seed{}", config.run.task, preset, config.run.attention, config.run.seed);
  const TaskData data =
      listops::load_task(config.listops_options(), [&](const std::string& line) { session.log.info("{}", line); });
  const lra::Outcome outcome = lra::train(config, data, folder, session);
  fmt::print("{:<34} {:>9}\n", fmt::format("{}, {} steps", config.run.task, config.run.steps), "test acc.");
  fmt::print("{:<34} {:>8.2f}%\n", "majority class", 100 * majority_accuracy(*data.train, *data.test));
  fmt::print("{:<34} {:>8.2f}%\n", "best guess from first operator", 100 * first_token_accuracy(*data.train, *data.test));
  fmt::print("{:<34} {:>8.2f}%   best of validation (step {}); {} parameters, {:.2f} steps/s, peak {:.0f} MB\n",
             config.run.attention, 100 * outcome.test.accuracy, outcome.best_step, outcome.parameters,
             outcome.steps_per_second, static_cast<double>(outcome.peak_memory_bytes) / (1 << 20));
  fmt::print("run folder: {}\n", folder.string());
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::lra::Config>(
      {"lra", "Long Range Arena: classification of long sequences, with any attention of the registry",
       bochner::embedded_resources()},
      argc, argv, run);
}
