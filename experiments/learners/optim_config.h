// The options of a Learner's optimizer: --optim.rate and so on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "autograd/optim/schedule.h"
#include "experiments/common/config/fields.h"

namespace bochner {

struct OptimConfig {
  std::string optimizer = "adamw";
  std::string schedule = "constant";
  double rate = 1e-3;
  double warmup = 0;
  double beta1 = 0.9;
  bool cycle_beta1 = false;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;
  double clip_value = 0;
  int64_t evaluate_every = 500;

  void fields(Fields& f);
  /// An Error if settings contradict each other.
  Schedule schedule_of(int64_t steps) const;
  std::unique_ptr<Adam> optimizer_of(std::vector<ParameterGroup> groups) const;
};

/// For networks with SNNK layers, whose weights have a learning rate of their own: their features differ in scale from
/// the inputs of a Linear, and they are not multiplied by a SIREN's omega.
struct SnnkOptimConfig : OptimConfig {
  double snnk_rate = 1;  ///< as a multiple of `rate`

  SnnkOptimConfig() { weight_decay = 0.01; }
  void fields(Fields& f);
  std::vector<GroupRule> rules(const std::vector<Parameter*>& snnk) const;
};

}  // namespace bochner
