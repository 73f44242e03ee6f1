// The trunk of a pretrained model is all of it before pooler and classifier. These read only the state of the first
// token, and a frozen trunk without dropout gives an example the same state in every epoch. So it runs once over each
// example, and training and evaluations take the states from memory: examples x dim floats.
//
//   const auto memory = std::make_shared<TrunkStates>(say, comm);            // of all runs of a program
//   const FrozenTrunk trunk(memory, model, states, repeats_of(*model, model->options(), problem.groups), run);
//   problem.train = trunk.feed("train", open_train, true);                   // batches may have `states`
//   problem.split = [=](Split) { return trunk.feed("dev", open_dev, false); };
//
// States are computed in the batches of evaluations. In a training batch, the same example is padded to another length
// and is part of matrix products of another size, which may round differently, though none did where it was tried.
// States depend on no seed and no step, so a resumed run finds the same ones.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/optim/groups.h"
#include "datasets/say.h"
#include "engine/comm/communicator.h"
#include "experiments/common/config/options.h"
#include "experiments/learners/examples.h"
#include "layers/models/pretrained.h"

namespace bochner {

/// The states of all tokens, from the model's inputs in a batch.  (n, length, dim)
using StatesOf = std::function<Variable(PretrainedModel&, const Examples&, Context&)>;
/// The batches of a data set, in random order or in its own. Without `inputs`, they lack the model's inputs, which
/// saves the time to make them.
using OpenFeed = std::function<std::unique_ptr<Feed>(bool shuffle, bool inputs)>;

/// The states of data sets, by name, in memory. Runs that have the same trunk share them.
class TrunkStates {
 public:
  /// `say` is told what is computed, and how long it took. Each process computes all states.
  explicit TrunkStates(Say say, Communicator& comm = alone()) : say_(std::move(say)), comm_(comm) {}

  /// The state of the first token of each example, (examples, 1, dim), f32 on the CPU. They are computed unless a trunk
  /// with the same weights has done so before. Throws Interrupted, in all processes, if one of them is asked to stop
  /// meanwhile.
  Tensor of(const std::string& set, PretrainedModel& model, const StatesOf& states, const OpenFeed& open,
            Device device);
  void say(const std::string& line) const { say_(line); }

 private:
  struct Kept {
    std::string trunk;  ///< hash of its weights
    Tensor states;
  };
  Say say_;
  Communicator& comm_;
  std::map<std::string, Kept> kept_;
};

/// Whether the rules freeze every parameter of the trunk.
bool trunk_is_frozen(PretrainedModel& model, const std::vector<GroupRule>& rules);

/// When a trunk gives an example the same states as before.
struct TrunkRepeats {
  bool evaluating = false;
  bool training = false;
};

/// For a model with these options and rules: true if its trunk is frozen and all attention is softmax, since other
/// mechanisms may draw features; in training, only without dropout. Options is BertOptions or VitOptions.
template <class Options>
TrunkRepeats repeats_of(PretrainedModel& model, const Options& options, const std::vector<GroupRule>& rules) {
  const bool frozen = options.attention.mechanism.name() == "softmax" && trunk_is_frozen(model, rules);
  return {frozen, frozen && options.dropout == 0 && options.attention_dropout == 0};
}

/// Opens the feeds of a run.
class FrozenTrunk {
 public:
  FrozenTrunk(std::shared_ptr<TrunkStates> memory, std::shared_ptr<PretrainedModel> model, StatesOf states,
              TrunkRepeats repeats, const RunOptions& run);

  /// Batches of the data set of that name. Where the trunk need not run, they have `states`, (n, 1, dim), in place of
  /// the model's inputs; prepare() computes all states, or else the first batch does. Training for at most one epoch
  /// would gain nothing, so it has inputs.
  std::unique_ptr<Feed> feed(const std::string& set, const OpenFeed& open, bool training) const;

 private:
  std::shared_ptr<TrunkStates> memory_;
  std::shared_ptr<PretrainedModel> model_;
  StatesOf states_;
  TrunkRepeats repeats_;
  Device device_;
  int64_t steps_;
  bool trains_;
};

}  // namespace bochner
