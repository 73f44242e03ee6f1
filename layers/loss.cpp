#include "layers/loss.h"

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"

namespace bochner {
namespace {

void require_equal_shapes(const char* loss, const Variable& x, const Shape& targets) {
  if (!(x.shape() == targets)) fail("{}: {} with targets of shape {}", loss, x.value().str(), targets.str());
}

Variable reduced(const Variable& terms, Reduction reduction) {
  if (reduction == Reduction::none) return terms;
  return reduction == Reduction::sum || terms.size() == 0 ? sum(terms) : mean(terms);
}

}  // namespace

Variable CrossEntropyLoss::operator()(const Variable& logits, const Tensor& labels) const {
  if (reduction == Reduction::mean) return cross_entropy(logits, labels, {smoothing, ignore});
  if (!(smoothing >= 0 && smoothing <= 1)) fail("cross_entropy: smoothing {} lies outside [0, 1]", smoothing);
  if (logits.rank() < 1 || logits.size(-1) < 1) fail("cross_entropy: logits {} have no classes", logits.value().str());
  Shape rows = logits.shape();
  rows.erase(rows.rank() - 1);
  require_equal_shapes("cross_entropy", Variable(labels), rows);
  if (labels.dtype() != DType::i64 && labels.dtype() != DType::i32) {
    fail("cross_entropy: labels are i64 or i32, not {}", labels.str());
  }
  Tensor ignored;
  Tensor chosen = labels;
  if (ignore) {
    ignored = equal(labels, static_cast<double>(*ignore));
    chosen = where(ignored, 0, labels);
  }
  const Variable log_p = log_softmax(logits);                                                    // (..., classes)
  const Variable label = squeeze(gather(log_p, -1, chosen.cast(DType::i64).unsqueeze(-1)), -1);  // (...)
  Variable terms = label * (smoothing - 1);
  if (smoothing > 0) terms = terms - mean(log_p, {-1}) * smoothing;
  if (ignored.defined()) terms = where(ignored, 0, terms);
  return reduced(terms, reduction);
}

Variable BinaryCrossEntropyLoss::operator()(const Variable& logits, const Tensor& targets) const {
  if (!(positive_weight > 0)) fail("binary_cross_entropy: positive weight {} must be positive", positive_weight);
  if (reduction == Reduction::mean && positive_weight == 1) return binary_cross_entropy(logits, targets);
  require_equal_shapes("binary_cross_entropy", logits, targets.shape());
  // -ln sigmoid(x) = softplus(-x),  -ln(1 - sigmoid(x)) = softplus(x) = softplus(-x) + x
  const Variable t = targets;
  return reduced(softplus(-logits) * (1 + (positive_weight - 1) * t) + logits * (1 - t), reduction);
}

Variable MeanSquaredErrorLoss::operator()(const Variable& x, const Variable& targets) const {
  if (reduction == Reduction::mean) return mean_squared_error(x, targets);
  require_equal_shapes("mean_squared_error", x, targets.shape());
  return reduced(square(x - targets), reduction);
}

Variable MeanAbsoluteErrorLoss::operator()(const Variable& x, const Variable& targets) const {
  require_equal_shapes("mean_absolute_error", x, targets.shape());
  return reduced(abs(x - targets), reduction);
}

Variable HuberLoss::operator()(const Variable& x, const Variable& targets) const {
  if (!(delta > 0)) fail("huber: delta {} must be positive", delta);
  require_equal_shapes("huber", x, targets.shape());
  const Variable error = x - targets;
  // c (error - c / 2), with c the error clamped to [-delta, delta].
  const Variable cut = clamp(error, -delta, delta);
  return reduced(cut * (error - cut * 0.5), reduction);
}

Variable KullbackLeiblerLoss::operator()(const Variable& log_q, const Tensor& p) const {
  if (log_q.rank() < 1) fail("kullback_leibler: {} has no axis of probabilities", log_q.value().str());
  require_equal_shapes("kullback_leibler", log_q, p.shape());
  const Tensor none = equal(p, Tensor::zeros_like(p));
  const Tensor safe = where(none, Tensor::full(p.shape(), 1, p.dtype(), p.device()), p);
  return reduced(sum(Variable(p) * (Variable(log(safe)) - where(none, 0, log_q)), {-1}), reduction);
}

}  // namespace bochner
