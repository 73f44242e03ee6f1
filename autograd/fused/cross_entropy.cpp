#include "autograd/fused/cross_entropy.h"

#include <algorithm>

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {
namespace {

/// The distribution each row is compared with, zero where it is ignored, and the number of rows that count.
std::pair<Tensor, double> targets_of(const Tensor& labels, int64_t classes, DType dtype,
                                     const CrossEntropyOptions& options) {
  const Tensor kinds = Tensor::arange(classes, DType::i64, labels.device());
  const Tensor hits = equal(labels.cast(DType::i64).unsqueeze(-1), kinds).cast(dtype);
  Tensor target = hits * (1 - options.smoothing) + options.smoothing / static_cast<double>(classes);
  double counted = static_cast<double>(labels.size());
  if (options.ignore) {
    const Tensor unwanted = Tensor::scalar(static_cast<double>(*options.ignore), DType::i64, labels.device());
    const Tensor counts = equal(labels.cast(DType::i64), unwanted).cast(dtype) * -1.0 + 1.0;
    target = target * counts.unsqueeze(-1);
    counted = sum(counts).item();
  }
  return {target, std::max(1.0, counted)};
}

/// What a mean over x divides by; a mean of nothing is 0.
double at_least_one(const Variable& x) { return std::max(1.0, static_cast<double>(x.size())); }

}  // namespace

Variable cross_entropy_composed(const Variable& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const auto [target, counted] = targets_of(labels, logits.size(-1), logits.dtype(), options);
  return sum(Variable(target) * (logsumexp(logits, -1, true) - logits)) / counted;
}

// loss = 1/n sum_i (lse_i - target_i . x_i):  dx = g (softmax(x) - target) / n
Variable cross_entropy(const Variable& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const CrossEntropy result = cross_entropy(logits.value(), labels, options);
  return record("cross_entropy", result.loss, {&logits},
                [logits, labels, options, lse = result.logsumexp](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [&](const auto& in) { return cross_entropy_composed(in[0], labels, options); }, {logits}, g);
                  }
                  return {cross_entropy_backward(g.value(), logits.value(), labels, lse, options)};
                });
}

Variable binary_cross_entropy_composed(const Variable& logits, const Tensor& targets) {
  return sum(softplus(logits) - logits * Variable(targets)) / at_least_one(logits);
}

// loss = 1/n sum_i (softplus(x_i) - x_i t_i):  dx = g (sigmoid(x) - t) / n
Variable binary_cross_entropy(const Variable& logits, const Tensor& targets) {
  return record("binary_cross_entropy", binary_cross_entropy(logits.value(), targets), {&logits},
                [logits, targets](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [&](const auto& in) { return binary_cross_entropy_composed(in[0], targets); }, {logits}, g);
                  }
                  return {binary_cross_entropy_backward(g.value(), logits.value(), targets)};
                });
}

Variable mean_squared_error_composed(const Variable& x, const Variable& targets) {
  return sum(square(x - targets)) / at_least_one(x);
}

// loss = 1/n sum_i (x_i - t_i)^2:  dx = 2 g (x - t) / n,  dt = -dx
Variable mean_squared_error(const Variable& x, const Variable& targets) {
  return record("mean_squared_error", mean_squared_error(x.value(), targets.value()), {&x, &targets},
                [x, targets](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back([](const auto& in) { return mean_squared_error_composed(in[0], in[1]); },
                                           {x, targets}, g);
                  }
                  const Tensor dx = mean_squared_error_backward(g.value(), x.value(), targets.value());
                  return {dx, targets.tracked() ? Variable(-dx) : Variable()};
                });
}

namespace {

OpInfo cross_entropy_info() {
  OpInfo info{"cross_entropy", "loss = -1/n sum_i ln softmax(x_i)_(label_i)", "", {}, {}};
  static const std::vector<CrossEntropyOptions> kOptions = {{}, {.smoothing = 0.1}, {.smoothing = 0.2, .ignore = 0}};
  uint64_t seed = 1900;
  for (const Shape& shape :
       {Shape{4, 5}, Shape{1, 1}, Shape{7, 3}, Shape{3, 33}, Shape{1, 10}, Shape{0, 4}, Shape{2, 3, 6}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      Generator generator(++seed);
      Shape rows = shape;
      rows.erase(-1);
      const Tensor labels = integers(rows, 0, shape[-1], generator);
      const CrossEntropyOptions options = kOptions[seed % kOptions.size()];
      info.samples.push_back(
          {label,
           {x},
           [=](const std::vector<Variable>& in) { return cross_entropy(in[0], beside(in[0], labels), options); },
           [=](const std::vector<Variable>& in) {
             return cross_entropy_composed(in[0], beside(in[0], labels), options);
           }});
    }
  }
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  info.refused = {[] {
                    cross_entropy(Variable(Tensor::zeros({2, 3})), Tensor::from<int64_t>({0, 3}, {2}));
                  },
                  [] {
                    cross_entropy(Variable(Tensor::zeros({2, 3})), Tensor::from<int64_t>({0}, {1}));
                  }};
  return info;
}

}  // namespace

void describe_cross_entropy(OpInfos& infos) {
  infos.push_back(cross_entropy_info());
  OpInfo binary{"binary_cross_entropy", "loss = 1/n sum_i softplus(x_i) - x_i t_i", "", {}, {}};
  OpInfo squared{"mean_squared_error", "loss = 1/n sum_i (x_i - t_i)^2", "", {}, {}};
  uint64_t seed = 2000;
  for (const Shape& shape : {Shape{4, 5}, Shape{1}, Shape{7, 3}, Shape{2, 3, 4}, Shape{0, 4}, Shape{33}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const Tensor targets = sample_values(shape, ++seed, 0.1, 0.9);
      binary.samples.push_back(
          {label,
           {x},
           [=](const std::vector<Variable>& in) { return binary_cross_entropy(in[0], beside(in[0], targets)); },
           [=](const std::vector<Variable>& in) {
             return binary_cross_entropy_composed(in[0], beside(in[0], targets));
           }});
      squared.samples.push_back(
          {label, {x, targets}, [](const std::vector<Variable>& in) { return mean_squared_error(in[0], in[1]); }});
    }
  }
  squared.composition = [](const Sample&, const std::vector<Variable>& in) {
    return mean_squared_error_composed(in[0], in[1]);
  };
  binary.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  binary.refused = {[] { binary_cross_entropy(Variable(Tensor::zeros({2})), Tensor::zeros({3})); }};
  squared.refused = {[] { mean_squared_error(Variable(Tensor::zeros({2})), Variable(Tensor::zeros({3}))); }};
  infos.push_back(binary);
  infos.push_back(squared);
}

}  // namespace bochner
