// A pretrained model as the beginning of a run: its weights, what the method adds to it, and an adapter that was
// trained before.
#pragma once

#include "datasets/say.h"
#include "experiments/learners/adaptation/methods.h"
#include "experiments/learners/learner.h"

namespace bochner {

/// Where a model comes from.
struct AdaptedFrom {
  std::filesystem::path pretrained;  ///< empty: all weights are new
  std::string adapter = {};          ///< a folder; empty: none
};

/// Reads pretrained weights into a model unless there are none or the options ask for new ones, changes it as the
/// method says, and reads the adapter. Returns the file of the weights, and the names of all parameters in it that are
/// as they are there. `say` is told which weights were read.
Problem::Base adapt(PretrainedModel& model, const AdaptationConfig& config, const AdaptedFrom& from, Generator& init,
                    const Say& say);

}  // namespace bochner
