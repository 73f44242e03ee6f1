#include "autograd/fused/cross_entropy.h"

#include <algorithm>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/tape.h"

namespace bochner {
namespace {

/// The target distribution of each row, zeros in ignored rows, and the number of rows that count.
std::pair<Tensor, double> targets_of(const Tensor& labels, int64_t classes, DType dtype,
                                     const CrossEntropyOptions& options) {
  const Tensor kinds = Tensor::arange(classes, DType::i64, labels.device());
  const Tensor hits = equal(labels.cast(DType::i64).unsqueeze(-1), kinds).cast(dtype);
  Tensor target = hits * (1 - options.smoothing) + options.smoothing / static_cast<double>(classes);
  double counted = static_cast<double>(labels.size());
  if (options.ignore) {
    const Tensor ignored = equal(labels.cast(DType::i64), static_cast<double>(*options.ignore));
    const Tensor counts = where(ignored, 0, Tensor::full(labels.shape(), 1, dtype, labels.device()));
    target = target * counts.unsqueeze(-1);
    counted = sum(counts).item();
  }
  return {target, std::max(1.0, counted)};
}

/// The divisor of a mean over x; at least 1, so that the mean of nothing is 0.
double at_least_one(const Variable& x) { return std::max(1.0, static_cast<double>(x.size())); }

}  // namespace

Variable cross_entropy_composed(const Variable& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const auto [target, counted] = targets_of(labels, logits.size(-1), logits.dtype(), options);
  return sum(Variable(target) * (logsumexp(logits, -1, true) - logits)) / counted;
}

// loss = 1/n sum_i (lse_i - target_i . x_i):  dx = g (softmax(x) - target) / n
Variable cross_entropy(const Variable& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const CrossEntropy result = cross_entropy(logits.value(), labels, options);
  return record_fused(
      "cross_entropy", result.loss, {logits},
      [=](const auto& in) { return cross_entropy_composed(in[0], labels, options); },
      [=, rest = result.rest](const Tensor& g, const auto& in) -> Gradients {
        return {cross_entropy_backward(g, in[0].value(), labels, rest, options)};
      });
}

Variable binary_cross_entropy_composed(const Variable& logits, const Tensor& targets) {
  return sum(softplus(logits) - logits * Variable(targets)) / at_least_one(logits);
}

// loss = 1/n sum_i (softplus(x_i) - x_i t_i):  dx = g (sigmoid(x) - t) / n
Variable binary_cross_entropy(const Variable& logits, const Tensor& targets) {
  return record_fused(
      "binary_cross_entropy", binary_cross_entropy(logits.value(), targets), {logits},
      [=](const auto& in) { return binary_cross_entropy_composed(in[0], targets); },
      [=](const Tensor& g, const auto& in) -> Gradients {
        return {binary_cross_entropy_backward(g, in[0].value(), targets)};
      });
}

Variable mean_squared_error_composed(const Variable& x, const Variable& targets) {
  return sum(square(x - targets)) / at_least_one(x);
}

// loss = 1/n sum_i (x_i - t_i)^2:  dx = 2 g (x - t) / n,  dt = -dx
Variable mean_squared_error(const Variable& x, const Variable& targets) {
  return record_fused(
      "mean_squared_error", mean_squared_error(x.value(), targets.value()), {x, targets},
      [](const auto& in) { return mean_squared_error_composed(in[0], in[1]); },
      [](const Tensor& g, const auto& in) -> Gradients {
        const Tensor dx = mean_squared_error_backward(g, in[0].value(), in[1].value());
        return {dx, in[1].tracked() ? Variable(-dx) : Variable()};
      });
}

}  // namespace bochner
