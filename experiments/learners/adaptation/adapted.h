// A pretrained model at the start of a run: its weights, what the method adds to it, and an adapter that was trained
// before.
#pragma once

#include <optional>

#include "datasets/say.h"
#include "experiments/learners/adaptation/methods.h"
#include "experiments/learners/learner.h"

namespace bochner {

/// Where a model comes from.
struct AdaptedFrom {
  std::filesystem::path pretrained;  ///< empty: all weights are new
  std::string adapter = {};          ///< a folder; empty: none
};

/// The result of adapting a model.
struct Adapted {
  /// The file of its weights, and the names of all parameters that are unchanged from that file.
  Problem::Base base = {};
  /// What was added to it: what the adapter's folder describes or, without one, what the method adds. Pooler and
  /// classifier are among its modules_to_save if they are trained or new.
  std::optional<Peft> added = {};
};

/// Reads pretrained weights into a model, unless there are none or the options ask for new ones; then changes it as the
/// method says, or adds and reads the adapter. `say` is told which weights were read. An Error if the adapter changes a
/// pooler or a classifier that the pretrained model lacks.
Adapted adapt(PretrainedModel& model, const AdaptationConfig& config, const AdaptedFrom& from, Generator& init,
              const Say& say);

}  // namespace bochner
