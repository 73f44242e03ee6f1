#include "experiments/common/run/records.h"

#include <filesystem>

namespace bochner {
namespace {

/// The prefix of values in checkpoint-last that hold the size of a file.
constexpr const char* kMarkOf = "run.file.";

/// Where the file continues: at its beginning if somebody removed it.
FileMark mark_of(const RunFolder& folder, const State& before, int64_t step, const std::string& file, Log& log) {
  const auto found = before.values.find(kMarkOf + file);
  if (found == before.values.end()) return {};
  const FileMark mark = FileMark::parse(found->second, before.file);
  if (mark.bytes == 0 || std::filesystem::exists(folder / file)) return mark;
  log.warning("{} is missing; it begins again at step {}", (folder / file).string(), step);
  return {};
}

}  // namespace

Records::Records(const RunFolder& folder, const State& before, int64_t step, Log& log, bool writes) {
  if (!writes) return;
  metrics_.emplace(folder / kMetrics, mark_of(folder, before, step, kMetrics, log));
  events_.emplace(folder / kEvents, mark_of(folder, before, step, kEvents, log));
}

void Records::write(int64_t step, const std::string& split, const Metrics& values) {
  if (!metrics_) return;
  metrics_->write(step, split, values);
  for (const auto& [name, value] : values) {
    events_->write({.wall_time = seconds_since_1970(),
                    .step = step,
                    .tag = name + "/" + split,
                    .value = static_cast<float>(value)});
  }
}

void Records::mark(State& checkpoint) {
  if (!metrics_) return;
  metrics_->sync();
  events_->sync();
  checkpoint.set(kMarkOf + std::string(kMetrics), metrics_->mark().text());
  checkpoint.set(kMarkOf + std::string(kEvents), events_->mark().text());
}

}  // namespace bochner
