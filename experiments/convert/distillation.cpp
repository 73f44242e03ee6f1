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

/// Beside weights in their logarithms, so that one that is rounded to 0 has a gradient.
constexpr double kSmallest = 1e-8;

/// Of a model whose output is its loss.
class GivenLoss final : public Objective {
 public:
  Variable loss(const Outputs& outputs, const Examples&) const override { return outputs.front(); }
  Tensor terms(const Examples&) const override { return {}; }
  void collect(const Outputs&, const Examples&, Answers&) const override {}
  std::vector<Prediction> predictions(const Outputs&, const Examples&) const override { return {}; }
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
double squares(const Tensor& a) { return sum(square(Variable(a))).value().item(); }

}  // namespace

Distillation::Distillation(const std::filesystem::path& folder, const MechanismOptions& mechanism,
                           const std::string& blocks, Device device, uint64_t seed, Match match)
    : folder_(folder), match_(match), device_(device) {
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
  for (const int64_t b : blocks_) {
    for (Parameter* parameter : student_->blocks()[static_cast<size_t>(b)].attention().parameters()) {
      if (parameter->name.find(".mechanism.") == std::string::npos) continue;
      parameter->trainable = true;
      trained_.push_back(parameter);
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
    const Variable error = sum(square(outputs.student[i] - Variable(target))) * (1 / squares(target));
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
        sum(square(at_real_tokens(as_computed(y[i]), batch.mask) - target)) * (1 / squares(target.value()));
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

Problem Distillation::problem(std::unique_ptr<Feed> train) {
  Problem problem;
  problem.model = student_;
  problem.forward = [this](const Examples& batch, Context& context) -> bochner::Outputs {
    const Bert::Input input = input_of(batch);
    if (match_ == Match::weights) return {loss_of_weights(input, context)};
    return {match_ == Match::outputs ? loss_of_outputs(input, context) : loss_of_states(input, context)};
  };
  problem.objective = std::make_shared<GivenLoss>();
  problem.train = std::move(train);
  problem.split = [](Split) { return nullptr; };  // apart() measures
  for (const Parameter* parameter : trained_) problem.groups.push_back({.pattern = parameter->name});
  problem.groups.push_back({.pattern = "*", .frozen = true});
  return problem;
}

std::vector<double> Distillation::apart(const std::vector<Examples>& batches) {
  std::vector<double> errors(blocks_.size() + 1), norms(blocks_.size() + 1);
  Generator same(0);  // features that are drawn in evaluation, too, are the same each time
  Context context{same, false};
  const NoTape constant;
  for (const Examples& held_out : batches) {
    const Bert::Input batch = input_of(held_out.to(device_));
    Outputs outputs = this->outputs(batch, context);
    outputs.teacher.push_back(outputs.last);
    outputs.student.push_back(at_real_tokens(as_computed(student_->forward(batch, context)), batch.mask));
    for (size_t i = 0; i < errors.size(); ++i) {
      errors[i] += squares((outputs.student[i] - Variable(outputs.teacher[i])).value());
      norms[i] += squares(outputs.teacher[i]);
    }
  }
  for (size_t i = 0; i < errors.size(); ++i) errors[i] = std::sqrt(errors[i] / norms[i]);
  return errors;
}

}  // namespace bochner::convert
