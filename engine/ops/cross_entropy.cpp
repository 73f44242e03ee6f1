#include "engine/ops/cross_entropy.h"

#include "engine/kernel.h"

namespace bochner {

// All contiguous. x, dx (rows, classes); labels i64, rest (rows); loss and g have one element.

BOCHNER_KERNEL(kCrossEntropy, "cross_entropy", cross_entropy, int64_t rows, int64_t classes, const Tensor& x,
               const Tensor& labels, const CrossEntropyOptions& options, const Tensor& loss, const Tensor& rest);
BOCHNER_KERNEL(kCrossEntropyBackward, "cross_entropy_backward", cross_entropy_backward, int64_t rows, int64_t classes,
               const Tensor& g, const Tensor& x, const Tensor& labels, const Tensor& rest,
               const CrossEntropyOptions& options, const Tensor& dx);
BOCHNER_KERNEL(kBinaryCrossEntropy, "binary_cross_entropy", binary_cross_entropy, const Tensor& x,
               const Tensor& targets, const Tensor& loss);
BOCHNER_KERNEL(kBinaryCrossEntropyBackward, "binary_cross_entropy_backward", binary_cross_entropy_backward,
               const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx);
BOCHNER_KERNEL(kSquared, "mean_squared_error", mean_squared_error, const Tensor& x, const Tensor& targets,
               const Tensor& loss);
BOCHNER_KERNEL(kSquaredBackward, "mean_squared_error_backward", mean_squared_error_backward, const Tensor& g,
               const Tensor& x, const Tensor& targets, const Tensor& dx);

namespace {

void check(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options) {
  require_floating(x.dtype(), "cross_entropy");
  const bool integers = labels.dtype() == DType::i64 || labels.dtype() == DType::i32;
  if (x.rank() == 0 || !integers || !(labels.shape() == x.shape().without_last())) {
    fail("cross_entropy: logits {} need i64 or i32 labels of their shape without the last axis, got {}", x.str(),
         labels.str());
  }
  if (!(options.smoothing >= 0 && options.smoothing <= 1))
    fail("cross_entropy: smoothing {} lies outside [0, 1]", options.smoothing);
}

void check_pair(const char* op, const Tensor& x, const Tensor& targets) {
  require_floating(x.dtype(), op);
  if (!(x.shape() == targets.shape()) || x.dtype() != targets.dtype())
    fail("{}: targets {} do not fit {}", op, targets.str(), x.str());
}

/// The gradient of a loss in the type of x.
Tensor loss_gradient(const char* op, const Tensor& g, const Tensor& x) {
  if (g.size() != 1) fail("{}: the gradient of a loss has one element, got {}", op, g.str());
  return g.cast(x.dtype()).contiguous();
}

}  // namespace

CrossEntropy cross_entropy(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options) {
  check(x, labels, options);
  const CrossEntropy result{Tensor::empty({}, x.dtype(), x.device()),
                            Tensor::empty(x.shape().without_last(), x.dtype(), x.device())};
  kCrossEntropy(x.device(), labels.size(), x.size(-1), x.contiguous(), labels.cast(DType::i64).contiguous(), options,
                result.loss, result.rest);
  return result;
}

Tensor cross_entropy_backward(const Tensor& g, const Tensor& x, const Tensor& labels, const Tensor& rest,
                              const CrossEntropyOptions& options) {
  check(x, labels, options);
  if (!(rest.shape() == labels.shape())) fail("cross_entropy: rest {} does not fit {}", rest.str(), x.str());
  const Tensor dx = Tensor::empty_like(x);
  kCrossEntropyBackward(x.device(), labels.size(), x.size(-1), loss_gradient("cross_entropy", g, x), x.contiguous(),
                        labels.cast(DType::i64).contiguous(), rest.contiguous(), options, dx);
  return dx;
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& targets) {
  check_pair("binary_cross_entropy", x, targets);
  const Tensor loss = Tensor::empty({}, x.dtype(), x.device());
  kBinaryCrossEntropy(x.device(), x.contiguous(), targets.contiguous(), loss);
  return loss;
}

Tensor binary_cross_entropy_backward(const Tensor& g, const Tensor& x, const Tensor& targets) {
  check_pair("binary_cross_entropy", x, targets);
  const Tensor dx = Tensor::empty_like(x);
  kBinaryCrossEntropyBackward(x.device(), loss_gradient("binary_cross_entropy", g, x), x.contiguous(),
                              targets.contiguous(), dx);
  return dx;
}

Tensor mean_squared_error(const Tensor& x, const Tensor& targets) {
  check_pair("mean_squared_error", x, targets);
  const Tensor loss = Tensor::empty({}, x.dtype(), x.device());
  kSquared(x.device(), x.contiguous(), targets.contiguous(), loss);
  return loss;
}

Tensor mean_squared_error_backward(const Tensor& g, const Tensor& x, const Tensor& targets) {
  check_pair("mean_squared_error", x, targets);
  const Tensor dx = Tensor::empty_like(x);
  kSquaredBackward(x.device(), loss_gradient("mean_squared_error", g, x), x.contiguous(), targets.contiguous(), dx);
  return dx;
}

}  // namespace bochner
