#include "experiments/convert/distillation.h"

#include <cmath>
#include <numeric>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/tape.h"
#include "engine/error.h"
#include "engine/ops/reduce.h"
#include "layers/mixed_precision.h"
#include "layers/models/hugging_face.h"

namespace bochner::convert {
namespace {

std::unique_ptr<Bert> loaded(const std::filesystem::path& folder, const BertOptions& options, Device device,
                             Generator& init) {
  auto bert = std::make_unique<Bert>(Slot{}, options, init);
  load_pretrained(*bert, folder);
  bert->set_trainable(false);
  bert->to(device, DType::f32);
  return bert;
}

/// Beside weights in their logarithms, so that one that is rounded to 0 has a gradient.
constexpr double kSmallest = 1e-8;

/// |a|^2
double squares(const Tensor& a) { return sum(square(Variable(a))).value().item(); }

}  // namespace

Distillation::Distillation(const std::filesystem::path& folder, const MechanismOptions& mechanism,
                           const std::string& blocks, Device device, uint64_t seed, Match match)
    : match_(match), device_(device), noise_(Generator(seed).fork(2)) {
  if (const std::string type = pretrained_type(folder); type != "bert") {
    fail("{}: the model is of the type '{}', not 'bert'", folder.string(), type);
  }
  BertOptions options = read_bert_options(folder);
  if (const std::string& own = options.attention.mechanism.name(); own != "softmax") {
    fail("{}: the model has the attention {} already; only softmax is converted", folder.string(), own);
  }
  if (mechanism.name() == "softmax") fail("--attention: name the mechanism that is to take the place of softmax");
  Generator init = Generator(seed).fork(1);
  teacher_ = loaded(folder, options, device, init);
  set_attention(options, folder, mechanism, blocks);
  student_ = loaded(folder, options, device, init);
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
  optimizer_ = std::make_unique<AdamW>(trained_);
}

int64_t Distillation::learnt() const {
  return std::accumulate(trained_.begin(), trained_.end(), int64_t{0},
                         [](int64_t sum, const Parameter* p) { return sum + p->value.size(); });
}

Tensor Distillation::pass(const Tensor& ids, std::vector<Variable>& x) {
  const NoTape constant;
  Context plain{noise_, false};  // the teacher draws nothing
  return as_computed(teacher_->forward({ids}, plain, &x)).value();
}

Distillation::Outputs Distillation::outputs(const Tensor& ids, Context& context) {
  Outputs outputs;
  std::vector<Variable> x;
  outputs.last = pass(ids, x);
  {
    const NoTape constant;
    Context plain{noise_, false};
    for (const int64_t b : blocks_) {
      const auto i = static_cast<size_t>(b);
      outputs.teacher.push_back(as_computed(teacher_->blocks()[i].attention().forward(x[i], {}, plain)).value());
    }
  }
  for (const int64_t b : blocks_) {
    const auto i = static_cast<size_t>(b);
    outputs.student.push_back(as_computed(student_->blocks()[i].attention().forward(x[i], {}, context)));
  }
  return outputs;
}

Variable Distillation::loss_of_outputs(const Tensor& ids, Context& context) {
  const Outputs outputs = this->outputs(ids, context);
  Variable loss;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Tensor& target = outputs.teacher[i];
    const Variable error = sum(square(outputs.student[i] - Variable(target))) * (1 / squares(target));
    loss = i == 0 ? error : loss + error;
  }
  return loss;
}

Variable Distillation::loss_of_weights(const Tensor& ids, Context& context) {
  std::vector<Variable> x;
  pass(ids, x);
  Variable loss;
  for (const int64_t b : blocks_) {
    const auto i = static_cast<size_t>(b);
    Variable t;
    {
      const NoTape constant;
      Context plain{noise_, false};
      t = teacher_->blocks()[i].attention().weights(x[i], {}, plain);
    }
    const Variable s = student_->blocks()[i].attention().weights(x[i], {}, context);
    if (amin(s.value()).item() < 0) {
      fail("--match=weights: {} weighs some values by less than 0, which softmax never does; use --match=outputs",
           student_->options().attention.mechanism.name());
    }
    const int64_t rows = t.value().size() / t.size(-1);
    const Variable divergence = sum(t * (log(t + kSmallest) - log(s + kSmallest))) * (1 / static_cast<double>(rows));
    loss = loss.defined() ? loss + divergence : divergence;
  }
  return loss;
}

double Distillation::step(const Tensor& ids, double rate) {
  Tape tape;
  Context context{noise_, true, steps_++};
  const Tensor there = ids.to(device_);
  const Variable loss = match_ == Match::weights ? loss_of_weights(there, context) : loss_of_outputs(there, context);
  tape.backward(loss);
  optimizer_->step(rate);
  optimizer_->clear_gradients();
  return loss.item() / static_cast<double>(blocks_.size());
}

std::vector<double> Distillation::apart(const std::vector<Tensor>& batches) {
  std::vector<double> errors(blocks_.size() + 1), norms(blocks_.size() + 1);
  Generator same(0);  // features that are drawn in evaluation, too, are the same each time
  Context context{same, false};
  const NoTape constant;
  for (const Tensor& batch : batches) {
    const Tensor ids = batch.to(device_);
    Outputs outputs = this->outputs(ids, context);
    outputs.teacher.push_back(outputs.last);
    outputs.student.push_back(as_computed(student_->forward({ids}, context)));
    for (size_t i = 0; i < errors.size(); ++i) {
      errors[i] += squares((outputs.student[i] - Variable(outputs.teacher[i])).value());
      norms[i] += squares(outputs.teacher[i]);
    }
  }
  for (size_t i = 0; i < errors.size(); ++i) errors[i] = std::sqrt(errors[i] / norms[i]);
  return errors;
}

}  // namespace bochner::convert
