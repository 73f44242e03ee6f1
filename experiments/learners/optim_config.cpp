#include "experiments/learners/optim_config.h"

#include <cmath>

#include "engine/error.h"
#include "experiments/learners/snnk_config.h"

namespace bochner {

void OptimConfig::fields(Fields& f) {
  f("optimizer", optimizer, "adam adds weight decay to the gradient").one_of({"adamw", "adam"});
  f("schedule", schedule, "learning-rate schedule").one_of({"constant", "linear", "rsqrt", "cosine", "one-cycle"});
  f("rate", rate, "peak learning rate; of rsqrt: the base").above(0);
  f("warmup", warmup, "steps of linear warm-up; below 1: a share of the steps or, with --seconds, of the time")
      .at_least(0)
      .warn_above("steps", "the rate never reaches its peak");
  f("beta1", beta1, "decay of Adam's first moment").at_least(0).below(1).only("without --optim.cycle-beta1", [this] {
    return !cycle_beta1;
  });
  f("cycle-beta1", cycle_beta1,
    "let one-cycle move beta1 from 0.95 to 0.85 and back, against the rate, as SKY's code does");
  f("beta2", beta2, "decay of Adam's second moment").at_least(0).below(1);
  f("eps", eps, "Adam's epsilon").above(0);
  f("weight-decay", weight_decay, "weight decay").at_least(0);
  f("clip-norm", clip_norm, "clip the gradient to this norm; 0: never").at_least(0);
  f("clip-value", clip_value, "clip each entry of the gradient to this size; 0: never").at_least(0);
  f("evaluate-every", evaluate_every, "steps between validations; 0: at each tenth of the training")
      .at_least(0)
      .free_on_resume();
}

Schedule OptimConfig::schedule_of(int64_t steps) const {
  if (cycle_beta1 && schedule != "one-cycle") {
    fail("optim.cycle-beta1: only the schedule one-cycle moves beta1, not {}", schedule);
  }
  if (warmup > 1 && warmup != std::floor(warmup)) {
    fail("optim.warmup={}: whole steps, or a share of the training below 1", warmup);
  }
  return {Schedule::named(schedule), rate, warmup, steps};
}

std::unique_ptr<Adam> OptimConfig::optimizer_of(std::vector<ParameterGroup> groups) const {
  const AdamOptions options{beta1, beta2, eps, weight_decay};
  if (optimizer == "adam") return std::make_unique<Adam>(std::move(groups), options);
  return std::make_unique<AdamW>(std::move(groups), options);
}

void SnnkOptimConfig::fields(Fields& f) {
  OptimConfig::fields(f);
  const size_t before = f.all().size();
  f("snnk-rate", snnk_rate, "rate of the weights of SNNK layers, as a multiple of the others'").above(0);
  only_with_snnk(f, before);
}

std::vector<GroupRule> SnnkOptimConfig::rules(const std::vector<Parameter*>& snnk) const {
  std::vector<GroupRule> rules;
  for (const Parameter* parameter : snnk) rules.push_back({.pattern = parameter->name, .rate = snnk_rate});
  return rules;
}

}  // namespace bochner
