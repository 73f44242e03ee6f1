// Adam or AdamW over a network, with a rate of its own for the weights of SNNK layers: they weigh features whose size
// is that of no Linear's inputs, and are not multiplied by a SIREN's omega.
#pragma once

#include <memory>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "experiments/common/run/state.h"
#include "experiments/learners/rows/config.h"

namespace bochner::classifier {

class NetworkOptimizer {
 public:
  /// `snnk`: those of `parameters` whose rate is optim.snnk_rate times that of the others.
  NetworkOptimizer(const std::vector<Parameter*>& parameters, const std::vector<Parameter*>& snnk,
                   const OptimConfig& optim);

  void step(double rate);
  void clear_gradients();
  int64_t steps() const { return groups_.front().adam->steps(); }
  void save(State& state) const;
  void load(const State& state);

 private:
  struct Group {
    std::unique_ptr<Adam> adam;
    double factor = 1;
  };
  std::vector<Group> groups_;
};

}  // namespace bochner::classifier
