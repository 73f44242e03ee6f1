// Learning-rate schedules of the four papers: the rate of each step, counted from 0. In a run that is limited by time,
// the rate decays by time.
#pragma once

#include <cstdint>
#include <string>

namespace bochner {

struct Schedule {
  enum class Kind : unsigned char {
    constant,  ///< peak after a linear warm-up
    linear,    ///< linear warm-up to the peak, then linear decay to 0 after the last step (SNNK; KL's GLUE)
    rsqrt,     ///< base min(1, t / warmup) / sqrt(max(t, warmup)): KL and LRA; `peak` is the base
    cosine,    ///< linear warm-up, then (1 + cos(pi t / T)) / 2 (KL and LRA on images)
    one_cycle  ///< peak / 25 up to the peak, then down to peak / 250000, both linear (SKY)
  };
  Kind kind = Kind::constant;
  double peak = 1e-3;
  double warmup = 0;  ///< steps; below 1: a share of the run
  int64_t steps = 1;  ///< length of the run

  /// The rate of a step. `elapsed` is the share of the run's time that has passed before it, 0 if the run has no time
  /// limit. A decay has progressed as far as the steps or the time, whichever is farther, and so has a warm-up that is
  /// given as a share; a warm-up given in steps counts steps. rsqrt has no length: its decay counts steps, and a
  /// warm-up that is a share of the time lasts as many steps as that time takes at the pace so far.
  double rate(int64_t step, double elapsed = 0) const;
  /// The kind of this name in configuration files; an Error lists the names.
  static Kind named(const std::string& name);
};

/// beta1 in SKY's released training: PyTorch's OneCycleLR moves it 0.95 -> 0.85 -> 0.95 opposite to the rate by
/// default.
double one_cycle_beta1(const Schedule& schedule, int64_t step, double elapsed = 0);

}  // namespace bochner
