#include "engine/ops/linear.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/work.h"

namespace bochner {

// All contiguous, of one floating type, and positive sizes. b is defined; mean, rstd (rows), gamma and beta are
// undefined together for a layer without norm; residual may be undefined.

BOCHNER_KERNEL(kLinear, "linear", linear, const LinearSizes& sizes, const Tensor& x, const LinearWeights& weights,
               const Tensor& residual, const LinearSpec& spec, const LinearResult& result);
// Fills what is defined of `result`; with gamma, dx is. made.y is defined if spec.relu.
BOCHNER_KERNEL(kLinearBackward, "linear_backward", linear_backward, const LinearSizes& sizes, const Tensor& g,
               const Tensor& x, const LinearResult& made, const LinearWeights& weights, const LinearSpec& spec,
               const LinearGradients& result);

namespace {

LinearSizes checked_sizes(const Tensor& x, const LinearWeights& weights) {
  visit_stored(x.dtype(), "linear", [](auto) {});
  const DType dtype = compute_dtype(x.dtype());
  if (!weights.w.defined() || weights.w.rank() != 2 || x.rank() == 0) {
    fail("linear: W {} must be (outputs, inputs) for x {}", weights.w.defined() ? weights.w.str() : "(undefined)",
         x.str());
  }
  if (weights.w.size(1) != x.size(-1))
    fail("linear: x {} has rows of {} numbers, and W {} takes {}", x.str(), x.size(-1), weights.w.str(),
         weights.w.size(1));
  const int64_t outputs = weights.w.size(0);
  const int64_t inputs = weights.w.size(1);
  const auto check = [&](const char* name, const Tensor& weight, const Shape& shape) {
    if (!weight.defined()) return;
    if (!(weight.shape() == shape) || weight.dtype() != dtype || !(weight.device() == x.device()))
      fail("linear: {} {} must be {} {} for x {}", name, weight.str(), name_of(dtype), shape.str(), x.str());
  };
  check("W", weights.w, {outputs, inputs});
  check("b", weights.b, {outputs});
  check("gamma", weights.gamma, {inputs});
  check("beta", weights.beta, {inputs});
  if (weights.gamma.defined() != weights.beta.defined())
    fail("linear: gamma and beta come together; without them there is no norm");
  return {inputs == 0 ? x.size() : x.size() / inputs, inputs, outputs};
}

Shape shape_of_y(const Tensor& x, const LinearSizes& sizes) {
  Shape shape = x.shape();
  shape[-1] = sizes.outputs;
  return shape;
}

Tensor contiguous_or_undefined(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

/// Contiguous, with a bias.
LinearWeights complete(const LinearWeights& weights, const LinearSizes& sizes, const Tensor& x) {
  return {.w = weights.w.contiguous(),
          .b = weights.b.defined() ? weights.b.contiguous()
                                   : Tensor::zeros({sizes.outputs}, compute_dtype(x.dtype()), x.device()),
          .gamma = contiguous_or_undefined(weights.gamma),
          .beta = contiguous_or_undefined(weights.beta)};
}

double products_of(const LinearSizes& sizes) {
  return static_cast<double>(sizes.rows) * static_cast<double>(sizes.inputs) * static_cast<double>(sizes.outputs);
}

bool has_work(const LinearSizes& sizes) { return sizes.rows > 0 && sizes.inputs > 0 && sizes.outputs > 0; }

}  // namespace

LinearResult linear(const Tensor& x, const LinearWeights& weights, const Tensor& residual, const LinearSpec& spec) {
  const LinearSizes sizes = checked_sizes(x, weights);
  const Shape shape = shape_of_y(x, sizes);
  if (residual.defined() && (!(residual.shape() == shape) || residual.dtype() != x.dtype()))
    fail("linear: the residual {} must be {} {}", residual.str(), name_of(x.dtype()), shape.str());
  if (spec.relu && residual.defined())
    fail("linear: relu together with a residual; add the residual to what this returns");
  LinearResult result{Tensor::empty(shape, x.dtype(), x.device()), {}, {}};
  if (sizes.inputs == 0 && result.y.size() > 0) fail("linear: x {} has no inputs to compute with", x.str());
  if (weights.gamma.defined()) {
    result.mean = Tensor::empty(x.shape().without_last(), compute_dtype(x.dtype()), x.device());
    result.rstd = Tensor::empty(x.shape().without_last(), compute_dtype(x.dtype()), x.device());
  }
  if (has_work(sizes)) {
    work::add_flops(2 * products_of(sizes));
    kLinear(x.device(), sizes, x.contiguous(), complete(weights, sizes, x), contiguous_or_undefined(residual), spec,
            result);
  }
  return result;
}

LinearGradients linear_backward(const Tensor& g, const Tensor& x, const LinearResult& made,
                                const LinearWeights& weights, const LinearSpec& spec, const LinearNeeds& needs) {
  const LinearSizes sizes = checked_sizes(x, weights);
  if (!(g.shape() == shape_of_y(x, sizes)) || g.dtype() != x.dtype())
    fail("linear: the gradient {} does not fit y of x {} and W {}", g.str(), x.str(), weights.w.str());
  const bool norm = weights.gamma.defined();
  if (norm && (!(made.mean.shape() == x.shape().without_last()) || !(made.rstd.shape() == x.shape().without_last())))
    fail("linear: mean {} and rstd {} do not fit x {}", made.mean.str(), made.rstd.str(), x.str());
  if (spec.relu && (!made.y.defined() || !(made.y.shape() == g.shape())))
    fail("linear: behind relu the y of {} is needed; pass what linear() returned", g.shape().str());
  if (!has_work(sizes)) {
    return {Tensor::zeros_like(x),
            {.w = Tensor::zeros_like(needs.w ? weights.w : Tensor()),
             .b = Tensor::zeros_like(needs.b ? weights.b : Tensor()),
             .gamma = Tensor::zeros_like(weights.gamma),
             .beta = Tensor::zeros_like(weights.beta)}};
  }
  const auto empty_like = [](const Tensor& t, bool needed = true) {
    return t.defined() && needed ? Tensor::empty_like(t) : Tensor();
  };
  const LinearGradients result{empty_like(x, needs.x || norm),
                               {.w = empty_like(weights.w, needs.w),
                                .b = empty_like(weights.b, needs.b),
                                .gamma = empty_like(weights.gamma),
                                .beta = empty_like(weights.beta)}};
  work::add_flops(((result.dx.defined() ? 2 : 0) + (needs.w ? 2 : 0)) * products_of(sizes));
  const LinearResult kept{spec.relu ? made.y.contiguous() : Tensor(), contiguous_or_undefined(made.mean),
                          contiguous_or_undefined(made.rstd)};
  kLinearBackward(x.device(), sizes, g.contiguous(), x.contiguous(), kept, complete(weights, sizes, x), spec, result);
  return result;
}

}  // namespace bochner
