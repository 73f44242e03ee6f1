#include "autograd/recompute.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/packed_weights.h"

namespace bochner {

/// What the first run records for the second one.
struct Recomputation::Record {
  struct Once {
    Tensor value;
    Generator after;  ///< the state of the random numbers after it
  };
  struct Used {
    const Parameter* parameter;
    Tensor value;
    uint64_t version;
  };

  Generator& generator;
  Generator start;
  std::vector<Once> once{};
  std::vector<Used> parameters{};
  std::shared_ptr<KeepPackedWeights::Copies> packed{};  ///< the first run's, for the second one
};

thread_local Recomputation* Recomputation::current_ = nullptr;

Recomputation::Recomputation(Record& record, bool again)
    : outer_(std::exchange(current_, this)), record_(record), again_(again) {}

Recomputation::~Recomputation() { current_ = outer_; }

void Recomputation::note(const Parameter& parameter) {
  for (Recomputation* run = current_; run != nullptr && !run->again_; run = run->outer_) {
    std::vector<Record::Used>& used = run->record_.parameters;
    const auto same = [&](const Record::Used& one) { return one.parameter == &parameter; };
    if (std::none_of(used.begin(), used.end(), same)) {
      used.push_back({&parameter, parameter.value, parameter.value.version()});
    }
  }
}

Tensor once(const std::function<Tensor()>& f) {
  Recomputation* const run = Recomputation::current_;
  if (run == nullptr) return f();
  Recomputation::Record& record = run->record_;
  if (run->again_) {
    if (run->next_ == record.once.size()) fail("recompute: the second run of a block does more than the first");
    const Recomputation::Record::Once& done = record.once[run->next_++];
    record.generator = done.after;
    return done.value;
  }
  // The block around this one may be in its second run.
  Recomputation::current_ = run->outer_;
  Tensor value;
  try {
    value = once(f);
  } catch (...) {
    Recomputation::current_ = run;
    throw;
  }
  Recomputation::current_ = run;
  record.once.push_back({value, record.generator});
  return value;
}

Gradients Recomputation::again(const std::function<Variable(const std::vector<Variable>&)>& f,
                               const std::vector<Variable>& inputs, const std::vector<const Parameter*>& parameters,
                               const Variable& g, Record& record) {
  if (Tape::current() != nullptr) {
    fail("recompute: a block that runs again in backward cannot be differentiated twice; run it without recompute");
  }
  for (const Record::Used& used : record.parameters) {
    if (used.value.version() == used.version) continue;
    fail(
        "recompute: parameter {} was overwritten between forward and backward, which runs the block "
        "again; run backward first",
        used.parameter->name);
  }
  const Generator now = std::exchange(record.generator, record.start);
  Tape inner;
  std::vector<Variable> watched;
  for (const Variable& input : inputs) watched.push_back(inner.watch(input.value()));
  Variable y;
  {
    const Recomputation second(record, true);
    const KeepPackedWeights keep(record.packed);
    y = f(watched);
  }
  record.generator = now;
  for (const Parameter* parameter : parameters) watched.push_back(inner.leaf(*parameter));
  std::vector<bool> keep(inner.nodes_.size(), false);
  for (const Variable& one : watched) keep[static_cast<size_t>(inner.node_of(one))] = true;
  const Gradients all = inner.run({y}, {g}, {.keep = keep});
  Gradients grads;
  for (const Variable& one : watched) grads.push_back(all[static_cast<size_t>(inner.node_of(one))]);
  return grads;
}

Variable recompute(const std::function<Variable(const std::vector<Variable>&)>& f, const std::vector<Variable>& inputs,
                   Generator& generator) {
  const bool any = std::any_of(inputs.begin(), inputs.end(), [](const Variable& input) { return input.tracked(); });
  if (Tape::current() == nullptr || !any) return f(inputs);
  const auto record = std::make_shared<Recomputation::Record>(Recomputation::Record{generator, generator});
  Tensor value;
  {
    std::optional<NoTape> paused;
    std::optional<Tape> checking;  // names the op within the block that is not finite
    std::vector<Variable> given = inputs;
    if (const Tape::Options options = Tape::current()->options(); options.check_finite) {
      checking.emplace(options);
      for (Variable& input : given) input = checking->watch(input.value());
    } else {
      paused.emplace();
    }
    const Recomputation first(*record, false);
    const KeepPackedWeights keep;
    record->packed = KeepPackedWeights::here();
    value = f(given).value();
  }
  std::vector<Variable> sources = inputs;  // of the value: the inputs, and the parameters that the block uses
  std::vector<const Parameter*> parameters;
  for (const Recomputation::Record::Used& used : record->parameters) {
    if (!used.parameter->trainable) continue;
    sources.push_back(Tape::current()->leaf(*used.parameter));
    parameters.push_back(used.parameter);
  }
  return bochner::record("recompute", std::vector<Tensor>{value}, sources,
                         [f, inputs, parameters, record](const Gradients& g) {
                           return Recomputation::again(f, inputs, parameters, g[0], *record);
                         })[0];
}

}  // namespace bochner
