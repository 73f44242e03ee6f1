#include "engine/ops/linear.h"

#include "engine/kernel.h"
#include "engine/ops/layer_weights.h"
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
  require_stored(x.dtype(), "linear");
  if (weights.w.rank() != 2 || x.rank() == 0)
    fail("linear: W {} must be (outputs, inputs) for x {}", weights.w.str(), x.str());
  const int64_t outputs = weights.w.size(0);
  const int64_t inputs = weights.w.size(1);
  if (inputs != x.size(-1))
    fail("linear: x {} has rows of {} numbers, and W {} takes {}", x.str(), x.size(-1), weights.w.str(), inputs);
  check_weight("linear", "W", weights.w, {outputs, inputs}, x);
  check_bias("linear", "b", weights.b, outputs, x);
  check_norm("linear", weights.gamma, weights.beta, x);
  return {inputs == 0 ? x.size() : x.size() / inputs, inputs, outputs};
}

/// Contiguous, with a bias.
LinearWeights complete(const LinearWeights& weights, const LinearSizes& sizes, const Tensor& x) {
  return {.w = weights.w.contiguous(),
          .b = bias_or_zeros(weights.b, sizes.outputs, x),
          .gamma = weights.gamma.contiguous(),
          .beta = weights.beta.contiguous()};
}

double products_of(const LinearSizes& sizes) { return product(sizes.rows, sizes.inputs, sizes.outputs); }

}  // namespace

LinearResult linear(const Tensor& x, const LinearWeights& weights, const Tensor& residual, const LinearSpec& spec) {
  const LinearSizes sizes = checked_sizes(x, weights);
  const Shape shape = x.shape().with_last(sizes.outputs);
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
  if (products_of(sizes) > 0) {
    work::add_flops(2 * products_of(sizes));
    kLinear(x.device(), sizes, x.contiguous(), complete(weights, sizes, x), residual.contiguous(), spec, result);
  }
  return result;
}

LinearGradients linear_backward(const Tensor& g, const Tensor& x, const LinearResult& made,
                                const LinearWeights& weights, const LinearSpec& spec, const LinearNeeds& needs) {
  const LinearSizes sizes = checked_sizes(x, weights);
  if (!(g.shape() == x.shape().with_last(sizes.outputs)) || g.dtype() != x.dtype())
    fail("linear: the gradient {} does not fit y of x {} and W {}", g.str(), x.str(), weights.w.str());
  const bool norm = weights.gamma.defined();
  if (norm) check_statistics("linear", made.mean, made.rstd, x);
  if (spec.relu && (!made.y.defined() || !(made.y.shape() == g.shape())))
    fail("linear: behind relu the y of {} is needed; pass what linear() returned", g.shape().str());
  if (products_of(sizes) == 0) {
    return {Tensor::zeros_like(x),
            {.w = Tensor::zeros_like(needs.w ? weights.w : Tensor()),
             .b = Tensor::zeros_like(needs.b ? weights.b : Tensor()),
             .gamma = Tensor::zeros_like(weights.gamma),
             .beta = Tensor::zeros_like(weights.beta)}};
  }
  const LinearGradients result{Tensor::empty_like(needs.x || norm ? x : Tensor()),
                               {.w = Tensor::empty_like(needs.w ? weights.w : Tensor()),
                                .b = Tensor::empty_like(needs.b ? weights.b : Tensor()),
                                .gamma = Tensor::empty_like(weights.gamma),
                                .beta = Tensor::empty_like(weights.beta)}};
  work::add_flops(((result.dx.defined() ? 2 : 0) + (needs.w ? 2 : 0)) * products_of(sizes));
  const LinearResult kept{spec.relu ? made.y.contiguous() : Tensor(), made.mean.contiguous(), made.rstd.contiguous()};
  kLinearBackward(x.device(), sizes, g.contiguous(), x.contiguous(), kept, complete(weights, sizes, x), spec, result);
  return result;
}

}  // namespace bochner
