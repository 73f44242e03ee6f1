#include "autograd/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/error.h"

namespace bochner {
namespace {

constexpr double kOneCycleStart = 25;  // peak / start
constexpr double kOneCycleEnd = 1e4;   // start / end

/// The position within the cycle: 0 at both ends, 1 at the peak. PyTorch's OneCycleLR with pct_start = warmup / steps.
double cycle_height(const Schedule& schedule, int64_t step, bool& rising) {
  const double top = static_cast<double>(schedule.warmup) - 1;
  const double end = static_cast<double>(schedule.steps) - 1;
  const double t = static_cast<double>(step);
  rising = t <= top;
  if (rising) return top <= 0 ? 1 : t / top;
  return end <= top ? 0 : std::max(0.0, (end - t) / (end - top));
}

}  // namespace

double Schedule::rate(int64_t step) const {
  const double t = static_cast<double>(step);
  const double w = static_cast<double>(std::max<int64_t>(warmup, 1));
  const double rise = warmup > 0 ? std::min(1.0, t / w) : 1.0;
  const double rest = std::max(1.0, static_cast<double>(steps - warmup));
  switch (kind) {
    case Kind::constant:
      return peak * rise;
    case Kind::linear:
      return step < warmup ? peak * rise : peak * std::max(0.0, static_cast<double>(steps - step) / rest);
    case Kind::rsqrt:
      return peak * rise / std::sqrt(std::max(t, w));
    case Kind::cosine: {
      if (step < warmup) return peak * rise;
      return peak * 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, static_cast<double>(step - warmup) / rest)));
    }
    case Kind::one_cycle: {
      bool rising = false;
      const double height = cycle_height(*this, step, rising);
      const double start = peak / kOneCycleStart;
      const double low = rising ? start : start / kOneCycleEnd;
      return low + (peak - low) * height;
    }
  }
  internal_failure("a known schedule", __FILE__, __LINE__);
}

double one_cycle_beta1(const Schedule& schedule, int64_t step) {
  bool rising = false;
  return 0.95 - 0.10 * cycle_height(schedule, step, rising);
}

Schedule::Kind Schedule::named(const std::string& name) {
  if (name == "constant") return Kind::constant;
  if (name == "linear") return Kind::linear;
  if (name == "rsqrt") return Kind::rsqrt;
  if (name == "cosine") return Kind::cosine;
  if (name == "one-cycle") return Kind::one_cycle;
  fail("schedule: '{}' is none of constant, linear, rsqrt, cosine, one-cycle", name);
}

}  // namespace bochner
