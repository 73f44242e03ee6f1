#include "autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {
namespace {

using Function = std::function<Variable(const std::vector<Variable>&)>;

Tensor projection(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return normal(shape, generator, 0, 1, DType::f64);
}

/// Compares differences of `value`, a function of all inputs to one number, with `gradients`.
std::string compare(const std::function<double(const std::vector<Tensor>&)>& value, const std::vector<Tensor>& inputs,
                    const Gradients& gradients, const GradcheckOptions& options) {
  double worst = 0;
  std::string report;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<double> gradient = gradients[i].value().to_vector<double>();
    if (!(gradients[i].shape() == inputs[i].shape())) {
      return fmt::format("input {}: gradient of shape {} for an input of shape {}", i, gradients[i].shape().str(),
                         inputs[i].shape().str());
    }
    std::vector<double> flat = inputs[i].to_vector<double>();
    const auto count = static_cast<int64_t>(flat.size());
    const int64_t stride = std::max<int64_t>(1, count / std::max<int64_t>(1, options.entries));
    for (int64_t k = 0; k < count; k += stride) {
      const auto at = static_cast<size_t>(k);
      std::vector<Tensor> moved = inputs;
      const double x = flat[at];
      const auto evaluate = [&](double shifted) {
        flat[at] = shifted;
        moved[i] = Tensor::from(flat, inputs[i].shape());
        flat[at] = x;
        return value(moved);
      };
      const double difference = (evaluate(x + options.step) - evaluate(x - options.step)) / (2 * options.step);
      const double error = std::abs(difference - gradient[at]) / std::max(1.0, std::abs(difference));
      if (std::isnan(error) || error > worst) {
        worst = std::isnan(error) ? INFINITY : error;
        report = fmt::format("input {} at {}: {} by backward, {} by differences (error {:.2e})", i,
                             inputs[i].shape().place(k).str(), gradient[at], difference, error);
      }
    }
  }
  return worst <= options.tolerance ? "" : report;
}

Gradients differentiate(const Function& f, const std::vector<Tensor>& inputs, uint64_t seed) {
  Tape tape;
  std::vector<Variable> xs;
  for (const Tensor& input : inputs) xs.push_back(tape.watch(input));
  const Variable y = f(xs);
  return tape.gradients({y}, {projection(y.shape(), seed)}, xs);
}

}  // namespace

std::string gradcheck(const Function& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const auto value = [&](const std::vector<Tensor>& at) {
    const Variable y = f({at.begin(), at.end()});
    return sum(y * projection(y.shape(), options.seed)).item();
  };
  return compare(value, inputs, differentiate(f, inputs, options.seed), options);
}

std::string gradcheck_twice(const Function& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  // The function <q, J(x)^T p> of x, built on its own tape, is differentiated once more.
  const auto pulled_back = [&](const std::vector<Tensor>& at, bool differentiate_again, Gradients& second) {
    Tape tape;
    std::vector<Variable> xs;
    for (const Tensor& input : at) xs.push_back(tape.watch(input));
    const Variable y = f(xs);
    const Gradients first = tape.gradients({y}, {projection(y.shape(), options.seed)}, xs, true);
    Variable total = Tensor::scalar(0, DType::f64);
    for (size_t i = 0; i < first.size(); ++i) {
      total = total + sum(first[i] * projection(first[i].shape(), options.seed + 1 + i));
    }
    if (differentiate_again) second = total.tracked() ? tape.gradients(total, xs) : Gradients(xs.begin(), xs.end());
    if (differentiate_again && !total.tracked()) {
      for (size_t i = 0; i < second.size(); ++i) second[i] = Tensor::zeros(at[i].shape(), DType::f64);
    }
    return total.item();
  };
  Gradients second;
  pulled_back(inputs, true, second);
  const auto value = [&](const std::vector<Tensor>& at) {
    Gradients unused;
    return pulled_back(at, false, unused);
  };
  return compare(value, inputs, second, options);
}

}  // namespace bochner
