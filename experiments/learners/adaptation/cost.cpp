#include "experiments/learners/adaptation/cost.h"

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/packed_weights.h"
#include "engine/stopwatch.h"
#include "experiments/common/report/spread.h"

namespace bochner {
namespace {

using Scores = std::function<Variable(Context&)>;

constexpr size_t kRounds = 11;
constexpr double kSeconds = 5;  ///< no further round after this time

Tensor computed(const Scores& scores) {
  const NoTape inference;
  Generator unused(0);
  Context context{unused, false};
  return scores(context).value().to(Device::cpu());
}

double milliseconds(const Scores& scores) {
  const KeepPackedWeights keep;
  (void)computed(scores);  // warm-up
  std::vector<double> times;
  double seconds = 0;
  while (times.size() < kRounds && seconds < kSeconds) {
    const Stopwatch watch;
    (void)computed(scores);
    const double taken = watch.seconds();
    times.push_back(taken * 1e3);
    seconds += taken;
  }
  return quantile(times, 0.5);
}

void add(Metrics& metrics, const std::string& prefix, PretrainedModel& model, const Scores& scores) {
  metrics.emplace_back(prefix + "bytes", static_cast<double>(model.bytes()));
  metrics.emplace_back(prefix + "trained-bytes", static_cast<double>(model.parameter_count()) * sizeof(float));
  metrics.emplace_back(prefix + "milliseconds", milliseconds(scores));
}

}  // namespace

Metrics cost_of(PretrainedModel& model, const Scores& scores) {
  Metrics metrics;
  add(metrics, "", model, scores);
  const Tensor before = computed(scores);
  if (!model.bundle()) return metrics;
  add(metrics, "bundled-", model, scores);
  const Tensor apart = abs(computed(scores) - before);
  metrics.emplace_back("bundled-apart", amax(apart).item() / amax(abs(before)).item());
  return metrics;
}

}  // namespace bochner
