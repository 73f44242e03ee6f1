#include "autograd/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/error.h"

namespace bochner {
namespace {

constexpr double kOneCycleStart = 25;  // peak / start
constexpr double kOneCycleEnd = 1e4;   // start / end

/// Where a run is, in steps.
struct Place {
  double made;
  double warm;   ///< length of the warm-up
  double paced;  ///< the same, out of the steps that the run will have made when its time is over, at the pace so far
  double rise;   ///< on the clock of the warm-up
  double fall;   ///< on that of the decay
};

Place place_of(const Schedule& schedule, int64_t step, double elapsed) {
  const double steps = static_cast<double>(schedule.steps);
  const double made = static_cast<double>(step);
  const double fall = std::max(made, std::floor(elapsed * steps));
  if (schedule.warmup >= 1) return {made, schedule.warmup, schedule.warmup, made, fall};
  const double warm = std::round(schedule.warmup * steps);
  const double paced = fall > made ? schedule.warmup * made / elapsed : warm;
  return {made, warm, paced, fall, fall};
}

struct Height {
  double value;  ///< 0 at both ends of the cycle, 1 at the peak
  bool rising;
};

/// The position within the cycle. PyTorch's OneCycleLR with pct_start = warmup / steps, for a warm-up in whole steps.
Height cycle_height(const Schedule& schedule, int64_t step, double elapsed) {
  const Place at = place_of(schedule, step, elapsed);
  const double top = at.warm - 1;
  const double end = static_cast<double>(schedule.steps) - 1;
  const double rise = top <= 0 ? 1 : at.rise / top;
  const double fall = end <= top ? 0 : std::max(0.0, (end - at.fall) / (end - top));
  const bool rising = at.rise <= top && (end <= top || rise <= fall);
  return {rising ? rise : fall, rising};
}

}  // namespace

double Schedule::rate(int64_t step, double elapsed) const {
  const Place at = place_of(*this, step, elapsed);
  const double w = std::max(at.warm, 1.0);
  const double rise = at.warm > 0 ? std::min(1.0, at.rise / w) : 1.0;
  const double rest = std::max(1.0, static_cast<double>(steps) - at.warm);
  switch (kind) {
    case Kind::constant:
      return peak * rise;
    case Kind::linear:
      return peak * rise * std::clamp((static_cast<double>(steps) - at.fall) / rest, 0.0, 1.0);
    case Kind::rsqrt:
      return peak * rise / std::sqrt(std::max({at.made, at.paced, 1.0}));
    case Kind::cosine:
      return peak * rise * 0.5 * (1 + std::cos(std::numbers::pi * std::clamp((at.fall - at.warm) / rest, 0.0, 1.0)));
    case Kind::one_cycle: {
      const Height height = cycle_height(*this, step, elapsed);
      const double start = peak / kOneCycleStart;
      const double low = height.rising ? start : start / kOneCycleEnd;
      return low + (peak - low) * height.value;
    }
  }
  internal_failure("a known schedule", __FILE__, __LINE__);
}

double one_cycle_beta1(const Schedule& schedule, int64_t step, double elapsed) {
  return 0.95 - 0.10 * cycle_height(schedule, step, elapsed).value;
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
