#include "experiments/lra/training.h"

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/allocator.h"
#include "engine/io/safetensors.h"
#include "engine/io/file.h"
#include "experiments/common/build_info.h"
#include "experiments/common/interrupt.h"
#include "experiments/common/progress.h"

namespace bochner::lra {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kLast = "checkpoint-last.safetensors";
constexpr const char* kBest = "checkpoint-best.safetensors";

Json to_json(const Score& score) { return {{"loss", score.loss}, {"accuracy", score.accuracy}}; }

/// What was measured so far: kept in memory, written whole and atomically beside each checkpoint, so the two never disagree.
struct Record {
  Json lines = Json::array();
  double best_accuracy = -1;
  int64_t best_step = 0;
  double seconds = 0;

  std::string text() const {
    std::string all;
    for (const Json& line : lines) all += line.dump() + "\n";
    return all;
  }
};

void save(const std::filesystem::path& folder, Learner& learner, const Record& record) {
  const std::map<std::string, Tensor> state = learner.state();
  const Json kept = {{"lines", record.lines},
                     {"best_accuracy", record.best_accuracy},
                     {"best_step", record.best_step},
                     {"seconds", record.seconds}};
  write_safetensors(folder / kLast, {state.begin(), state.end()}, {{"experiment", "lra"}, {"record", kept.dump()}});
  write_file_atomically(folder / "metrics.jsonl", record.text());
}

Record restore(const std::filesystem::path& folder, Learner& learner) {
  const Safetensors file = read_safetensors(folder / kLast);
  const auto experiment = file.metadata.find("experiment");
  const auto kept = file.metadata.find("record");
  if (experiment == file.metadata.end() || experiment->second != "lra" || kept == file.metadata.end()) {
    fail("{}: is no checkpoint of lra", (folder / kLast).string());
  }
  learner.load_state({file.tensors.begin(), file.tensors.end()});
  const Json json = Json::parse(kept->second);
  return {json.at("lines"), json.at("best_accuracy"), json.at("best_step"), json.at("seconds")};
}

}  // namespace

Outcome train(const Config& config, const TaskData& data, const std::filesystem::path& folder, Session& session) {
  Learner learner(config, data);
  Record record;
  if (config.run.resume && std::filesystem::exists(folder / kLast)) {
    record = restore(folder, learner);
    session.log.info("{}: goes on at step {} of {}", folder.string(), learner.steps(), config.run.steps);
  } else {
    std::filesystem::create_directories(folder);
    write_file_atomically(folder / "config.ini", config_ini(session.experiment, session.fields));
    save(folder, learner, record);
  }
  Allocator& allocator = Allocator::of(Device::cpu());
  allocator.reset_peak();
  Progress progress(session.log);
  Clock::time_point start = Clock::now();
  const double seconds_before = record.seconds;
  const int64_t first = learner.steps();
  Score recent;
  int64_t recent_steps = 0;
  double evaluating = 0;
  const auto training_seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count() - evaluating; };
  while (learner.steps() < config.run.steps) {
    const Score score = learner.step();
    recent.loss += score.loss;
    recent.accuracy += score.accuracy;
    ++recent_steps;
    const int64_t step = learner.steps();
    progress.update({.step = step,
                     .steps = config.run.steps,
                     .loss = recent.loss / static_cast<double>(recent_steps),
                     .accuracy = recent.accuracy / static_cast<double>(recent_steps),
                     .rate = static_cast<double>(step - first) / training_seconds()});
    if (step % config.optim.evaluate_every == 0 || step == config.run.steps) {
      const Clock::time_point before = Clock::now();
      const Score valid = learner.evaluate(data.valid);
      record.seconds = seconds_before + training_seconds();
      const Score train_score{recent.loss / static_cast<double>(recent_steps), recent.accuracy / static_cast<double>(recent_steps)};
      record.lines.push_back({{"step", step}, {"train", to_json(train_score)}, {"valid", to_json(valid)}});
      recent = {};
      recent_steps = 0;
      if (valid.accuracy > record.best_accuracy) {
        record.best_accuracy = valid.accuracy;
        record.best_step = step;
        const std::map<std::string, Tensor> state = learner.state();
        write_safetensors(folder / kBest, {state.begin(), state.end()}, {{"experiment", "lra"}});
      }
      save(folder, learner, record);
      progress.finish();
      session.log.info("step {}: train loss {:.4f}, accuracy {:.2f} %; valid loss {:.4f}, accuracy {:.2f} %", step, train_score.loss,
                       100 * train_score.accuracy, valid.loss, 100 * valid.accuracy);
      evaluating += std::chrono::duration<double>(Clock::now() - before).count();
    }
    if (interrupted() && step < config.run.steps) {
      record.seconds = seconds_before + training_seconds();
      save(folder, learner, record);
      progress.finish();
      throw Interrupted(fmt::format("stopped at step {}; go on with the same options and --resume --out={}", step, folder.string()));
    }
  }
  progress.finish();
  Outcome outcome;
  outcome.parameters = learner.parameter_count();
  outcome.steps_per_second = record.seconds > 0 ? static_cast<double>(learner.steps()) / record.seconds : 0;
  outcome.peak_memory_bytes = allocator.stats().peak_bytes;
  outcome.best_step = record.best_step;
  outcome.last_test = learner.evaluate(data.test);
  const Safetensors best = read_safetensors(folder / kBest);
  learner.load_model({best.tensors.begin(), best.tensors.end()});
  outcome.valid = learner.evaluate(data.valid);
  outcome.test = learner.evaluate(data.test);
  const Json results = {
      {"experiment", "lra"},
      {"task", config.run.task},
      {"protocol", config.run.preset.empty() ? "none" : config.run.preset},
      {"model",
       {{"attention", config.run.attention},
        {"as", config.model.as},
        {"layers", config.model.layers},
        {"dim", config.model.dim},
        {"heads", config.model.heads},
        {"features", config.model.features}}},
      {"tokenisation", config.task.tokenisation},
      {"parameters", outcome.parameters},
      {"seed", config.run.seed},
      {"steps", config.run.steps},
      {"device", config.run.device},
      {"metrics",
       {{"valid", to_json(outcome.valid)}, {"test", to_json(outcome.test)}, {"test_of_last", to_json(outcome.last_test)}, {"best_step", outcome.best_step}}},
      {"steps_per_second", outcome.steps_per_second},
      {"peak_memory_bytes", outcome.peak_memory_bytes},
      {"train_seconds", record.seconds}};
  write_file_atomically(folder / "results.json", results.dump(2) + "\n");
  return outcome;
}

}  // namespace bochner::lra
