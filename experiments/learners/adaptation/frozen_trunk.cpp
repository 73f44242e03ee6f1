#include "experiments/learners/adaptation/frozen_trunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "engine/io/xxh3.h"
#include "engine/stopwatch.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/process/processes.h"
#include "experiments/common/run/answer.h"
#include "experiments/learners/feeds.h"

namespace bochner {
namespace {

std::string hash_of(const std::vector<Parameter*>& parameters) {
  Xxh3 hash;
  for (const Parameter* parameter : parameters) {
    const Tensor values = parameter->value.to(Device::cpu()).contiguous();
    hash.update(std::as_bytes(std::span(values.data<float>(), static_cast<size_t>(values.size()))));
  }
  return hash.hex();
}

/// states[numbers[i]] as row i.
Tensor rows_of(const Tensor& states, const std::vector<int64_t>& numbers) {
  const int64_t dim = states.size(2);
  Tensor rows = Tensor::empty({std::ssize(numbers), 1, dim});
  float* to = rows.data<float>();
  for (const int64_t number : numbers) to = std::copy_n(states.data<float>() + number * dim, dim, to);
  return rows;
}

class StatesFeed final : public FeedOver {
 public:
  StatesFeed(std::unique_ptr<Feed> others, std::function<Tensor()> states)
      : FeedOver(std::move(others)), compute_(std::move(states)) {}
  void prepare() override {
    FeedOver::prepare();
    if (!states_.defined()) states_ = compute_();
  }
  // A checkpoint may have been loaded since.
  void go_to(int64_t step) override {
    states_ = Tensor();
    FeedOver::go_to(step);
  }

 private:
  Examples examples_of(Examples batch) override {
    prepare();
    batch.tensors.emplace_back("states", rows_of(states_, batch.numbers));
    return batch;
  }

  std::function<Tensor()> compute_;
  Tensor states_;
};

}  // namespace

Tensor TrunkStates::of(const std::string& set, PretrainedModel& model, const StatesOf& states, const OpenFeed& open,
                       Device device) {
  Kept& kept = kept_[set];
  std::string trunk = hash_of(model.trunk_parameters());
  if (kept.trunk == trunk) return kept.states;
  const Stopwatch watch;
  const std::unique_ptr<Feed> feed = open(false, true);
  say_(fmt::format("{}: the frozen trunk runs once over {} examples", set, feed->examples()));
  model.to(device, DType::f32);
  const NoTape inference;
  Generator unused(0);
  Context context{unused, false};
  const Tensor all = Tensor::empty({feed->examples(), 1, model.dim()});
  for (int64_t i = feed->steps_per_epoch(); i > 0; --i) {
    // Before training, a signal ends the program at once, and it is not yet known whether all processes have these
    // batches.
    if (stops_later() && asked_to_stop(comm_)) {
      throw Interrupted("interrupted while the frozen trunk ran; nothing was trained meanwhile");
    }
    const Examples batch = feed->next();
    const Tensor first =
        states(model, batch.to(device), context).value().slice(1, 0, 1).cast(DType::f32).to(Device::cpu());
    for (int64_t k = 0; k < batch.size(); ++k) {
      const int64_t number = batch.numbers[static_cast<size_t>(k)];
      all.slice(0, number, number + 1).copy_(first.slice(0, k, k + 1));
    }
  }
  say_(fmt::format("{}: {:.1f} s; their states, {:.1f} MB, are now in memory", set, watch.seconds(),
                   static_cast<double>(all.size()) * sizeof(float) / 1e6));
  kept = {std::move(trunk), all};
  return all;
}

bool trunk_is_frozen(PretrainedModel& model, const std::vector<GroupRule>& rules) {
  const std::vector<Parameter*> trunk = model.trunk_parameters();
  return std::all_of(trunk.begin(), trunk.end(), [&](const Parameter* parameter) {
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const GroupRule& one) { return fits(parameter->name, one.pattern); });
    return rule != rules.end() && rule->frozen;
  });
}

FrozenTrunk::FrozenTrunk(std::shared_ptr<TrunkStates> memory, std::shared_ptr<PretrainedModel> model, StatesOf states,
                         TrunkRepeats repeats, const RunOptions& run)
    : memory_(std::move(memory)),
      model_(std::move(model)),
      states_(std::move(states)),
      repeats_(repeats),
      device_(Device::named(run.device)),
      steps_(run.steps),
      trains_(!asks_a_run(run)) {}

std::unique_ptr<Feed> FrozenTrunk::feed(const std::string& set, const OpenFeed& open, bool training) const {
  if (!(training ? repeats_.training : repeats_.evaluating)) {
    if (training && repeats_.evaluating && trains_)
      memory_->say(set + ": the trunk is frozen, but dropout or changed inputs make it run in every step");
    return open(training, true);
  }
  std::unique_ptr<Feed> others = open(training, false);
  if (training && steps_ > 0 && steps_ <= others->steps_per_epoch()) return open(training, true);
  return std::make_unique<StatesFeed>(std::move(others), [trunk = *this, set, open] {
    return trunk.memory_->of(set, *trunk.model_, trunk.states_, open, trunk.device_);
  });
}

}  // namespace bochner
