// A pretrained model as the beginning of a run: its weights, what the method adds to it, and an adapter that was
// trained before; and what the run has trained, for other programs.
#pragma once

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
                    const std::function<void(const std::string&)>& say);

/// Of the weights that were read, those that are frozen need not be in checkpoints.
void keep_frozen(Problem::Base& base, const std::vector<GroupRule>& rules);

/// The closed form of the bundled pooler and classifier on the training set (SNNK J.3): least squares of the scores, or
/// of 1 for the class and 0 for the others, on the features of the frozen model. `states` of a batch are what its
/// pooler reads.
void fit_bundle(const AdaptationConfig& config, const RunOptions& run, Problem& problem,
                const std::function<Variable(const Examples&, Context&)>& states);

/// Where a method adds something to a frozen model, writes that into the folder `adapter` of the run, as
/// layers/models/peft.h does, with the classifier, and with the pooler if that is not the pretrained one. `frozen` are
/// the parameters that are as they are in the folder `pretrained`.
void write_adapter(const AdaptationConfig& config, const RunOptions& run, PretrainedModel& model,
                   const std::set<std::string>& frozen, const std::filesystem::path& pretrained,
                   const std::filesystem::path& folder);

/// The folder of --export, as it was asked for: an Error without --to, or where that is the folder of the pretrained
/// model.
std::filesystem::path export_folder(const std::string& to, const std::filesystem::path& pretrained);

}  // namespace bochner
