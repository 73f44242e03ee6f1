#include "experiments/learners/learner.h"

#include <algorithm>
#include <optional>

#include "autograd/ops/binary.h"
#include "engine/comm/sequence_slices.h"
#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/finite.h"
#include "engine/io/safetensors.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/packed_weights.h"
#include "engine/stopwatch.h"

namespace bochner {
namespace {

constexpr const char* kOptimizerPrefix = "optimizer.";
constexpr const char* kPredictions = "predictions.tsv";

/// Whether a checkpoint has the same tensor, bit for bit.
bool has_bits_of(const State& state, const std::string& name, const Tensor& tensor) {
  const auto found = state.tensors.find(name);
  if (found == state.tensors.end() || !(found->second.shape() == tensor.shape())) return false;
  return found->second.dtype() == tensor.dtype() && amax(abs(found->second.to(tensor.device()) - tensor)).item() == 0;
}

std::vector<Parameter*> parameters_on(Device device, Module& model) {
  model.to(device, DType::f32);
  return model.parameters();
}

/// The noise of part `i` of a step's batch, and what all parts share.
class PartNoise {
 public:
  PartNoise(const Generator& of_step, int64_t i)
      : shared_(of_step.fork(0)), own_(of_step.fork(static_cast<uint64_t>(i) + 1)) {}
  Context context(int64_t number, SequenceSlice* slice) { return {own_, true, number, &shared_, slice}; }

 private:
  Generator shared_, own_;
};

/// Refuses to divide a batch that cannot be divided.
Problem checked(Problem problem, const RunOptions& run) {
  BOCHNER_ASSERT(problem.model && problem.forward && problem.objective);
  BOCHNER_ASSERT((problem.train && problem.split) || (!run.predict.empty() && !problem.asked.empty()));
  if (run.sequence_shards > 1 && problem.sequences.empty()) {
    fail(
        "--sequence-shards={}: only where whole sequences are classified can they be cut; leave it out, and share the "
        "batch by --shards",
        run.sequence_shards);
  }
  if (run.sequence_shards > 1 && !Device::named(run.device).is_cpu()) {
    fail("--sequence-shards={}: slices of sequences are for --device=cpu; on a card leave it out", run.sequence_shards);
  }
  const bool trains = run.evaluate.empty() && run.predict.empty();
  if (!trains || (run.accumulate == 1 && run.shards == 0 && run.sequence_shards == 1)) return problem;
  if (run.accumulate > 1 && (run.shards > 0 || run.sequence_shards > 1)) {
    fail("--accumulate={}: with --shards={} a step takes its batch in as many parts already; leave out one of them",
         run.accumulate, std::max(run.shards, 1));
  }
  const Examples first = problem.train->next();
  problem.train->go_to(0);
  if (run.shards > 0 && first.size() % run.shards != 0) {
    fail("--shards={}: they do not divide a batch of {} examples; choose a --batch or --shards that do", run.shards,
         first.size());
  }
  if (run.accumulate > first.size()) {
    fail("--accumulate={}: a batch of {} examples has not so many parts", run.accumulate, first.size());
  }
  if (!problem.objective->terms(first).defined()) {
    fail(
        "--{}: this loss is no mean over examples, so a batch cannot be taken in parts; leave it out, and start one "
        "process",
        run.shards > 0 ? fmt::format("shards={}", run.shards) : fmt::format("accumulate={}", run.accumulate));
  }
  return problem;
}

}  // namespace

Generator stream_of(uint64_t seed, Stream stream) { return Generator(seed).fork(static_cast<uint64_t>(stream)); }

TrainPlan plan_by(const Metric& metric, const RunOptions& run, const OptimConfig& optim) {
  TrainPlan plan{.steps = run.steps, .evaluate_every = optim.evaluate_every};
  plan.best_by = metric.name;
  return plan;
}

bool leaves_out_weights(const State& state) { return state.values.contains(kBaseHash); }

void load_module(Module& model, const State& state) {
  for (const auto& [name, tensor] : model.state()) state.copy_to(name, tensor);
}

void load_module(Module& model, const State& state, const Problem::Base& base) {
  if (!leaves_out_weights(state)) return load_module(model, state);
  if (state.text(kBaseHash) != base.sha256) {
    fail("{}: its frozen weights are those of {} with the SHA-256 {}; {}", state.file, state.text(kBaseFile),
         state.text(kBaseHash),
         base.sha256.empty() ? "this model reads no such file" : base.file + " has the SHA-256 " + base.sha256);
  }
  for (const auto& [name, tensor] : model.state()) {
    if (state.tensors.contains(name) || !base.tensors.contains(name)) state.copy_to(name, tensor);
  }
}

Learner::Learner(const RunOptions& run, const OptimConfig& optim, Problem problem)
    : problem_(checked(std::move(problem), run)),
      optim_(optim),
      device_(Device::named(run.device)),
      seed_(run.seed),
      accumulate_(run.accumulate),
      shards_(run.sequence_shards > 1 ? std::max(run.shards, 1) : run.shards),
      slices_(run.sequence_shards),
      fast_(run.reduce == "fast"),
      noise_(stream_of(run.seed, Stream::noise)),
      parameters_(parameters_on(device_, *problem_.model)),
      optimizer_(optim.optimizer_of(parameter_groups(parameters_, problem_.groups))),
      schedule_(optim.schedule_of(run.steps)),
      place_(device_),
      loss_(Tensor::zeros({}, DType::f64, device_)),
      correct_(Tensor::zeros({}, DType::f64, device_)),
      loss_sum_(Tensor::zeros({}, DType::f64, device_)),
      replays_(run.graphs),
      graph_(device_, noise_) {
  parameter_count_ = problem_.model->parameter_count();  // without frozen ones
  if (shards_ > 0) share(alone());
}

void Learner::share(Communicator& comm) {
  comm_ = &comm;
  if (shards_ == 0) {
    if (comm.size() > 1) fail("{} processes: there are no --shards to share", comm.size());
    return;
  }
  sharded_ = std::make_unique<ShardedStep>(*problem_.model, comm, shards_, slices_, fast_);
}

StepResult Learner::step(int64_t step) {
  if (step != next_) problem_.train->go_to(step);
  const Stopwatch watch;
  batch_ = problem_.train->next();
  waited_ += watch.seconds();
  next_ = step + 1;
  const Examples batch = place_.put(batch_);
  if (place_.moves() != moves_) graph_.clear();
  moves_ = place_.moves();
  if (optim_.cycle_beta1) optimizer_->set_beta1(one_cycle_beta1(schedule_, step, share_of_time()));
  optimizer_->prepare(schedule_.rate(step, share_of_time()));
  if (replays_ && !sharded_) {
    graph_.run(batch.shapes(), [&] { update(batch, step); });
  } else {
    update(batch, step);
  }
  StepResult result{.loss = loss_.clone(), .count = batch_.size()};
  if (problem_.objective->judges()) {
    result.correct = correct_.clone();
    result.judged = problem_.objective->judged(batch_);
  }
  return result;
}

void Learner::update(const Examples& batch, int64_t step) {
  loss_.fill_(0);
  correct_.fill_(0);
  std::optional<KeepPackedWeights> keep;  // for all parts of the batch
  if (sharded_ || accumulate_ > 1) keep.emplace();
  if (sharded_) {
    add_shards(batch, step);
  } else {
    const Tensor terms = accumulate_ > 1 ? problem_.objective->terms(batch) : Tensor();
    const int64_t parts = std::clamp<int64_t>(batch.size(), 1, accumulate_);  // the last batch of an epoch can be short
    for (int64_t part = 0; part < parts; ++part) {
      Context context{noise_, true, step};  // the step tells kept features when to be redrawn
      add_part(parts > 1 ? batch.part(part, parts) : batch, context, terms, {loss_, correct_});
    }
  }
  keep.reset();
  add_(loss_sum_, loss_);
  GradientClip clip = optim_.clip_norm > 0 ? clip_by_norm(parameters_, optim_.clip_norm) : GradientClip{};
  if (optim_.clip_value > 0) clip.limit = optim_.clip_value;
  clip.guard = loss_sum_;
  optimizer_->apply(clip);
  optimizer_->clear_gradients();
}

/// Adds the gradient of these examples, which are a part of a batch with `terms` terms, or the whole batch if that is
/// undefined.
void Learner::add_part(const Examples& examples, Context& context, const Tensor& terms, const Totals& to,
                       const Tape::Completed& completed) {
  const Objective& objective = *problem_.objective;
  Tape tape;
  const Outputs outputs = problem_.forward(examples, context);
  Variable loss = objective.loss(outputs, examples);
  // All slices of sequences arrive at the same loss. It counts in the first one, from which the others get their
  // gradients.
  const bool counts = context.slice == nullptr || context.slice->is_first();
  if (!counts) loss = loss * 0;
  if (terms.defined()) loss = loss * Variable((objective.terms(examples) / terms).cast(loss.value().dtype()));
  add_(to.loss, loss.value().cast(DType::f64));
  if (counts && objective.judges()) add_(to.correct, objective.correct(outputs, examples));
  tape.backward(loss, completed);
}

void Learner::add_shards(const Examples& batch, int64_t step) {
  const Generator of_step = Generator(noise_.seed()).fork(static_cast<uint64_t>(step));
  const Tensor terms = problem_.objective->terms(batch);
  const int64_t parts = int64_t{shards_} * slices_;
  const auto part = [&](int64_t i, SequenceSlice* slice, const Tape::Completed& completed) {
    // A short batch may leave a shard without examples, but what all examples share must still be drawn.
    Examples shard = batch.part(i / slices_, shards_);
    const bool empty = shard.size() == 0;
    if (empty) shard = batch.part(batch.size() - 1, batch.size());
    if (slice != nullptr) shard = shard.of_slice(*slice, problem_.sequences);
    PartNoise noise(of_step, i);
    Context context = noise.context(step * parts + i, slice);  // each part draws the shared noise anew
    const Totals totals{Tensor::zeros({}, DType::f64, device_), Tensor::zeros({}, DType::f64, device_)};
    if (empty) {
      problem_.forward(shard, context);
    } else {
      add_part(shard, context, terms, totals, completed);
    }
    return Tensor::from(std::vector<double>{totals.loss.item(), totals.correct.item()}, {2});
  };
  const Tensor sums = sharded_->run(part, slices_ == 1 ? 0 : batch.at(problem_.sequences.front()).shape()[-1]);
  loss_.fill_(sums.data<double>()[0]);
  correct_.fill_(sums.data<double>()[1]);
}

Blame Learner::blame(int64_t step) {
  if (step + 1 != next_) {  // a GPU has begun some later steps
    problem_.train->go_to(step);
    batch_ = problem_.train->next();
    next_ = step + 1;
  }
  Blame blame{.examples = batch_.numbers};
  if (slices_ > 1) return blame;  // whole sequences may not fit into memory
  const Examples batch = place_.put(batch_);
  const Generator of_step = Generator(noise_.seed()).fork(static_cast<uint64_t>(step));
  try {
    for (int64_t i = 0; i < std::max(shards_, 1); ++i) {
      const Examples part = sharded_ ? batch.part(i, shards_) : batch;
      if (part.size() == 0) continue;
      PartNoise noise(of_step, i);
      Tape tape({.check_finite = true});
      Context context = sharded_ ? noise.context(step * shards_ + i, nullptr) : Context{noise_, true, step};
      problem_.objective->loss(problem_.forward(part, context), part);
    }
  } catch (const Error& error) {
    blame.layer = error.what();
  }
  return blame;
}

void Learner::answer(Feed& feed, const Judge& judge) {
  const KeepPackedWeights keep;
  if (sharded_) return answer_together(feed, judge);
  Generator noise = stream_of(seed_, Stream::evaluation);
  Context context{noise, false};
  int64_t answered = 0;
  for (int64_t i = 0; i < feed.steps_per_epoch(); ++i) {
    const Examples batch = feed.next().to(device_);
    judge(batch, problem_.forward(batch, context));
    answered += batch.size();
    evaluated(answered, feed.examples());
  }
}

void Learner::answer_together(Feed& feed, const Judge& judge) {
  const Generator stream = stream_of(seed_, Stream::evaluation);
  const int64_t count = feed.steps_per_epoch();
  int64_t answered = 0;
  for (int64_t begin = 0; begin < count; begin += comm_->size()) {
    std::vector<Examples> batches;
    TensorMap own;
    for (int64_t i = begin; i < std::min(count, begin + comm_->size()); ++i) {
      batches.push_back(feed.next());
      answered += batches.back().size();
      if (i - begin != comm_->rank()) continue;
      Generator noise = stream.fork(static_cast<uint64_t>(i));
      Context context{noise, false};
      const Outputs outputs = problem_.forward(batches.back().to(device_), context);
      for (size_t k = 0; k < outputs.size(); ++k) own[std::to_string(k)] = outputs[k].value();
    }
    const std::vector<std::byte> bytes = format_safetensors(own);
    const std::vector<std::string> all = comm_->gather(std::string(text_of(bytes)));
    for (size_t i = 0; i < std::min(all.size(), batches.size()); ++i) {
      const TensorMap tensors =
          parse_safetensors(bytes_of(all[i]), "outputs of " + comm_->who(static_cast<int>(i))).tensors;
      Outputs outputs;
      for (size_t k = 0; k < tensors.size(); ++k) outputs.emplace_back(tensors.at(std::to_string(k)).to(device_));
      judge(batches[i].to(device_), outputs);
    }
    evaluated(answered, feed.examples());
  }
}

Answers Learner::answers_to(Feed& feed) {
  const Objective& objective = *problem_.objective;
  Answers answers;
  answer(feed, [&](const Examples& batch, const Outputs& outputs) {
    const Tensor counted = objective.terms(batch);
    const double terms = counted.defined() ? counted.item() : static_cast<double>(batch.size());
    if (terms > 0) answers.loss_sum += objective.loss(outputs, batch).item() * terms;
    answers.terms += terms;
    objective.collect(outputs, batch, answers);
  });
  return answers;
}

Metrics Learner::evaluate(Split split) {
  Metrics metrics;
  const auto add = [&](const Answers& answers, const std::string& set) {
    if (!comm_->is_first()) return;
    for (const Metric& metric : problem_.metrics) metrics.emplace_back(metric.name + set, metric.of(answers));
  };
  const Answers answers = answers_to(*problem_.split(split));
  add(answers, "");
  if (split == Split::test) {
    for (const Problem::TestSet& set : problem_.further_tests) add(answers_to(*set.examples()), "-" + set.name);
  }
  if (comm_->is_first() && problem_.further) problem_.further(split, answers, metrics);
  if (comm_->size() == 1) return metrics;
  return parse_metrics_json(comm_->broadcast(metrics_json(metrics)), "metrics");
}

std::vector<std::string> Learner::answer_files() {
  if (problem_.asked.empty()) return {kPredictions};
  std::vector<std::string> files;
  for (const Problem::Asked& asked : problem_.asked) files.push_back(asked.file);
  return files;
}

void Learner::predict(const std::string& file, const std::function<void(const Prediction&)>& say) {
  const auto asked = std::find_if(problem_.asked.begin(), problem_.asked.end(),
                                  [&](const Problem::Asked& one) { return one.file == file; });
  BOCHNER_ASSERT(asked != problem_.asked.end() || file == kPredictions);
  const std::unique_ptr<Feed> feed = asked != problem_.asked.end() ? asked->examples() : problem_.split(Split::test);
  std::vector<Prediction> all;
  answer(*feed, [&](const Examples& batch, const Outputs& outputs) {
    auto number = batch.numbers.begin();
    for (Prediction& one : problem_.objective->predictions(outputs, batch)) {
      one.number = problem_.number_of ? problem_.number_of(*number) : *number;
      ++number;
      all.push_back(std::move(one));
    }
  });
  // The feed's order may differ from the data set's.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  for (const Prediction& one : all) say(one);
}

std::vector<Baseline> Learner::baselines() {
  return problem_.baselines ? problem_.baselines() : std::vector<Baseline>();
}

Metrics Learner::extra() {
  return {{"rate", schedule_.rate(std::max<int64_t>(0, optimizer_->steps() - 1), share_of_time())}};
}

void Learner::save_whole_model(State& state) {
  for (const auto& [name, tensor] : problem_.model->state()) state.tensors[name] = tensor;
}

void Learner::save_model(State& state) {
  save_whole_model(state);
  if (problem_.keeps) problem_.keeps(state);
  if (base_changed_ || problem_.base.tensors.empty()) return;
  for (const std::string& name : problem_.base.tensors) state.tensors.erase(name);
  state.set(kBaseFile, problem_.base.file);
  state.set(kBaseHash, problem_.base.sha256);
}

void Learner::load_model(const State& state) {
  const Problem::Base& base = problem_.base;
  if (!leaves_out_weights(state)) {
    for (const auto& [name, tensor] : problem_.model->state()) {
      base_changed_ = base_changed_ || (base.tensors.contains(name) && !has_bits_of(state, name, tensor));
    }
  }
  load_module(*problem_.model, state, base);
  if (problem_.recalls) problem_.recalls(state);
}

void Learner::save_training(State& state) {
  for (const auto& [name, tensor] : optimizer_->state()) state.tensors[kOptimizerPrefix + name] = tensor;
  state.set("noise", noise_);
  state.set("next_step", next_);
}

void Learner::load_training(const State& state) {
  std::map<std::string, Tensor> moments;
  const std::string prefix = kOptimizerPrefix;
  for (const auto& [name, tensor] : state.tensors) {
    if (!name.starts_with(prefix)) continue;
    if (tensor.device().is_cpu()) require_finite(tensor, name, state.file);
    moments[name.substr(prefix.size())] = tensor;
  }
  optimizer_->load_state(moments);
  noise_ = state.generator("noise");
  next_ = state.count("next_step");
  problem_.train->go_to(next_);
}

}  // namespace bochner
