#include "experiments/glue/cost.h"

#include <algorithm>
#include <chrono>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner::glue {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kTexts = 8;
constexpr size_t kRounds = 11;
constexpr double kSeconds = 5;  ///< no further round after so long

Tensor scores_of(const Bert& bert, const Tensor& ids) {
  const NoTape inference;
  Generator unused(0);
  Context context{unused, false};
  return bert.class_scores(bert.pool(bert.forward({ids}, context)), context).value().to(Device::cpu());
}

double milliseconds(const Bert& bert, const Tensor& ids) {
  (void)scores_of(bert, ids);  // warm
  std::vector<double> times;
  double seconds = 0;
  while (times.size() < kRounds && seconds < kSeconds) {
    const auto began = Clock::now();
    (void)scores_of(bert, ids);
    const std::chrono::duration<double> taken = Clock::now() - began;
    times.push_back(taken.count() * 1e3);
    seconds += taken.count();
  }
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void add(Metrics& metrics, const std::string& prefix, Bert& bert, const Tensor& ids) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : bert.state())
    bytes += tensor.size() * static_cast<int64_t>(size_of(tensor.dtype()));
  metrics.emplace_back(prefix + "bytes", static_cast<double>(bytes));
  metrics.emplace_back(prefix + "trained-bytes", static_cast<double>(bert.parameter_count()) * sizeof(float));
  metrics.emplace_back(prefix + "milliseconds", milliseconds(bert, ids));
}

}  // namespace

Metrics cost_of(const Config& config, Bert& bert) {
  Generator draws(1);
  const Tensor ids = integers({kTexts, config.text->max_length}, 0, bert.options().vocabulary, draws)
                         .to(Device::named(config.run.device));
  Metrics metrics;
  add(metrics, "", bert, ids);
  const Tensor before = scores_of(bert, ids);
  if (!bert.bundle()) return metrics;
  add(metrics, "bundled-", bert, ids);
  const Tensor apart = abs(scores_of(bert, ids) - before);
  metrics.emplace_back("bundled-apart", amax(apart).item() / amax(abs(before)).item());
  return metrics;
}

}  // namespace bochner::glue
