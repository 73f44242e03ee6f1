#include "experiments/convert/distillation.h"

#include <cmath>
#include <numeric>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/tape.h"
#include "engine/error.h"
#include "engine/ops/reduce.h"
#include "experiments/learners/pretrained.h"
#include "layers/mixed_precision.h"
#include "layers/models/hugging_face.h"

namespace bochner::convert {
namespace {

std::unique_ptr<Bert> loaded(const std::filesystem::path& folder, const BertOptions& options, Device device,
                             Generator& init, LoadedTensors* tensors = nullptr) {
  auto bert = std::make_unique<Bert>(Slot{}, options, init);
  const LoadedTensors found = load_pretrained(*bert, folder);
  if (tensors != nullptr) *tensors = found;
  bert->set_trainable(false);
  bert->to(device, DType::f32);
  return bert;
}

/// Added to weights before their logarithm, so that a weight that is rounded to 0 has a gradient.
constexpr double kSmallest = 1e-8;

/// For a model whose first output is its loss; in evaluation, the second one is Distillation::squares().
class Closeness final : public Objective {
 public:
  Variable loss(const Outputs& outputs, const Examples&) const override { return outputs.front(); }
  Tensor terms(const Examples&) const override { return {}; }
  void collect(const Outputs& outputs, const Examples&, Answers& to) const override {
    const std::vector<double> squares = outputs.at(1).value().to_vector<double>();
    const auto norms = squares.begin() + std::ssize(squares) / 2;
    to.values.insert(to.values.end(), squares.begin(), norms);
    to.truths.insert(to.truths.end(), norms, squares.end());
  }
  std::vector<Prediction> predictions(const Outputs&, const Examples&) const override { return {}; }
};

/// What Distillation::apart() returns, `count` numbers, from what Closeness has collected.
std::vector<double> apart_of(const Answers& answers, size_t count) {
  std::vector<double> errors(count), norms(count);
  for (size_t i = 0; i < answers.values.size(); ++i) {
    errors[i % count] += answers.values[i];
    norms[i % count] += answers.truths[i];
  }
  for (size_t i = 0; i < count; ++i) errors[i] = std::sqrt(errors[i] / norms[i]);
  return errors;
}

/// sqrt(mean_b e_b) from apart().
double of_outputs(const std::vector<double>& apart) {
  double sum = 0;
  for (size_t b = 0; b + 1 < apart.size(); ++b) sum += apart[b] * apart[b];
  return std::sqrt(sum / static_cast<double>(apart.size() - 1));
}

double of_states(const std::vector<double>& apart) { return apart.back(); }

/// The same batches each time.
class Kept final : public Feed {
 public:
  explicit Kept(std::vector<Examples> batches) : batches_(std::move(batches)) {}
  Examples next() override { return batches_.at(static_cast<size_t>(next_++ % steps_per_epoch())); }
  void go_to(int64_t step) override { next_ = step; }
  int64_t steps_per_epoch() const override { return std::ssize(batches_); }
  int64_t examples() const override {
    return std::accumulate(batches_.begin(), batches_.end(), int64_t{0},
                           [](int64_t sum, const Examples& batch) { return sum + batch.size(); });
  }

 private:
  std::vector<Examples> batches_;
  int64_t next_ = 0;
};

/// a with 0 where the query is padding: a (batch, length, dim), or weights (batch, heads, length, length).
Variable at_real_tokens(const Variable& a, const Tensor& mask) {
  if (!mask.defined()) return a;
  const Shape queries =
      a.value().rank() == 3 ? Shape{mask.size(0), mask.size(1), 1} : Shape{mask.size(0), 1, mask.size(1), 1};
  return a * Variable(mask.cast(DType::f32).reshape(queries));
}

double real_tokens(const Bert::Input& batch) {
  if (!batch.mask.defined()) return static_cast<double>(batch.ids.size());
  return sum(Variable(batch.mask.cast(DType::f32))).value().item();
}

/// |a|^2
double squared_norm(const Tensor& a) { return sum(square(Variable(a))).value().item(); }

}  // namespace

Distillation::Distillation(const std::filesystem::path& folder, const MechanismOptions& mechanism,
                           const std::string& blocks, Device device, uint64_t seed, Match match, int64_t states_from)
    : folder_(folder), match_(match), states_from_(states_from), device_(device), seed_(seed) {
  BertOptions options = pretrained_bert(folder);
  if (const std::string& own = options.attention.mechanism.name(); own != "softmax") {
    fail("{}: the model has the attention {} already; only softmax is converted", folder.string(), own);
  }
  if (mechanism.name() == "softmax") fail("--attention: name the mechanism that is to take the place of softmax");
  Generator init = stream_of(seed, Stream::init);
  teacher_ = loaded(folder, options, device, init);
  set_attention(options, folder, mechanism, blocks);
  converted_ = options;
  options.dropout = 0;
  options.attention_dropout = 0;
  student_ = loaded(folder, options, device, init, &tensors_);
  blocks_ = options.attention_blocks;
  if (blocks_.empty()) {
    blocks_.resize(static_cast<size_t>(options.layers));
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }
  const std::filesystem::path weights = pretrained_weights(folder);
  base_ = {weights.string(), record_weights(weights), tensors_.filled};
  for (const int64_t b : blocks_) {
    for (Parameter* parameter : student_->blocks()[static_cast<size_t>(b)].attention().parameters()) {
      if (parameter->name.find(".mechanism.") == std::string::npos) continue;
      parameter->trainable = true;
      trained_.push_back(parameter);
      base_.tensors.erase(parameter->name);
    }
  }
}

int64_t Distillation::learnt() const {
  return std::accumulate(trained_.begin(), trained_.end(), int64_t{0},
                         [](int64_t sum, const Parameter* p) { return sum + p->value.size(); });
}

std::unique_ptr<Bert> Distillation::converted() const {
  Generator unused(0);
  std::unique_ptr<Bert> bert = loaded(folder_, converted_, Device::cpu(), unused);
  bert->load_state(student_->state());
  return bert;
}

Tensor Distillation::pass(const Bert::Input& batch, std::vector<Variable>& x) {
  const NoTape constant;
  Generator unused(0);  // the teacher draws nothing
  Context plain{unused, false};
  return at_real_tokens(as_computed(teacher_->forward(batch, plain, &x)), batch.mask).value();
}

Distillation::Outputs Distillation::outputs(const Bert::Input& batch, Context& context) {
  Outputs outputs;
  std::vector<Variable> x;
  outputs.last = pass(batch, x);
  const auto attention = [&](Bert& bert, int64_t b, Context& noise) {
    const auto i = static_cast<size_t>(b);
    const Variable O = bert.blocks()[i].attention().forward(x[i], {batch.mask}, noise);
    return at_real_tokens(as_computed(O), batch.mask);
  };
  {
    const NoTape constant;
    Generator unused(0);
    Context plain{unused, false};
    for (const int64_t b : blocks_) outputs.teacher.push_back(attention(*teacher_, b, plain).value());
  }
  for (const int64_t b : blocks_) outputs.student.push_back(attention(*student_, b, context));
  return outputs;
}

Variable Distillation::loss_of_outputs(const Bert::Input& batch, Context& context) {
  const Outputs outputs = this->outputs(batch, context);
  Variable loss;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Tensor& target = outputs.teacher[i];
    const Variable error = sum(square(outputs.student[i] - Variable(target))) * (1 / squared_norm(target));
    loss = i == 0 ? error : loss + error;
  }
  return loss * (1 / static_cast<double>(blocks_.size()));
}

Variable Distillation::loss_of_states(const Bert::Input& batch, Context& context) {
  std::vector<Variable> x;
  std::vector<Variable> y;
  pass(batch, x);
  student_->forward(batch, context, &y);
  const size_t first = static_cast<size_t>(blocks_.front()) + 1;  // the embeddings are the first states
  Variable loss;
  for (size_t i = first; i < x.size(); ++i) {
    const Variable target = at_real_tokens(as_computed(x[i]), batch.mask);
    const Variable error =
        sum(square(at_real_tokens(as_computed(y[i]), batch.mask) - target)) * (1 / squared_norm(target.value()));
    loss = i == first ? error : loss + error;
  }
  return loss * (1 / static_cast<double>(x.size() - first));
}

Variable Distillation::loss_of_weights(const Bert::Input& batch, Context& context) {
  std::vector<Variable> x;
  pass(batch, x);
  Variable loss;
  for (const int64_t b : blocks_) {
    const auto i = static_cast<size_t>(b);
    Variable t;
    {
      const NoTape constant;
      Generator unused(0);
      Context plain{unused, false};
      t = at_real_tokens(teacher_->blocks()[i].attention().weights(x[i], {batch.mask}, plain), batch.mask);
    }
    const Variable s = student_->blocks()[i].attention().weights(x[i], {batch.mask}, context);
    if (amin(s.value()).item() < 0) {
      fail("--match=weights: {} weighs some values by less than 0, which softmax never does; use --match=outputs",
           student_->options().attention.mechanism.name());
    }
    const double rows = static_cast<double>(t.size(1)) * real_tokens(batch);
    const Variable divergence = sum(t * (log(t + kSmallest) - log(s + kSmallest))) * (1 / rows);
    loss = loss.defined() ? loss + divergence : divergence;
  }
  return loss * (1 / static_cast<double>(blocks_.size()));
}

Variable Distillation::loss(const Bert::Input& batch, Context& context) {
  if (match_ == Match::weights) return loss_of_weights(batch, context);
  const bool states = match_ == Match::states && context.step >= states_from_;
  return states ? loss_of_states(batch, context) : loss_of_outputs(batch, context);
}

Tensor Distillation::squares(const Bert::Input& batch, Context& context) {
  Outputs outputs = this->outputs(batch, context);
  outputs.teacher.push_back(outputs.last);
  outputs.student.push_back(at_real_tokens(as_computed(student_->forward(batch, context)), batch.mask));
  std::vector<double> errors;
  std::vector<double> norms;
  for (size_t i = 0; i < outputs.teacher.size(); ++i) {
    errors.push_back(squared_norm((outputs.student[i] - Variable(outputs.teacher[i])).value()));
    norms.push_back(squared_norm(outputs.teacher[i]));
  }
  const auto count = std::ssize(errors);
  errors.insert(errors.end(), norms.begin(), norms.end());
  return Tensor::from(errors, {2, count});
}

Problem Distillation::problem(std::unique_ptr<Feed> train, std::vector<Examples> held_out) {
  const size_t count = blocks_.size() + 1;
  Problem problem;
  problem.model = student_;
  problem.forward = [this](const Examples& batch, Context& context) -> bochner::Outputs {
    const Bert::Input input = input_of(batch);
    if (context.training) return {loss(input, context)};
    return {Variable(Tensor::zeros({}, DType::f32)), Variable(squares(input, context))};
  };
  problem.objective = std::make_shared<Closeness>();
  problem.metrics = {
      {.name = "error-of-states", .of = [count](const Answers& a) { return of_states(apart_of(a, count)); }},
      {.name = "error-of-outputs", .of = [count](const Answers& a) { return of_outputs(apart_of(a, count)); }}};
  before_ = apart(held_out);
  problem.baselines = [this] {
    return std::vector<Baseline>{
        {student_->options().attention.mechanism.name() + ", not fitted",
         {{"error-of-states", of_states(before_)}, {"error-of-outputs", of_outputs(before_)}}}};
  };
  problem.train = std::move(train);
  problem.split = [batches = std::move(held_out)](Split) { return std::make_unique<Kept>(batches); };
  problem.only_set = "held-out";
  for (const Parameter* parameter : trained_) problem.groups.push_back({.pattern = parameter->name});
  problem.groups.push_back({.pattern = "*", .frozen = true});
  problem.base = base_;
  return problem;
}

std::vector<double> Distillation::apart(const std::vector<Examples>& batches) {
  Generator noise = stream_of(seed_, Stream::evaluation);  // for features that are also drawn in evaluation
  Context context{noise, false};
  const NoTape constant;
  Answers answers;
  for (const Examples& batch : batches) {
    Closeness().collect({Variable(), Variable(squares(input_of(batch.to(device_)), context))}, batch, answers);
  }
  return apart_of(answers, blocks_.size() + 1);
}

void Distillation::take(const State& checkpoint) { load_module(*student_, checkpoint, base_); }

}  // namespace bochner::convert
