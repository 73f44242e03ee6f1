// A composition: one BLAS product, and one fused pass before and after it; narrow layers have their own kernels.
#include "engine/ops/linear.h"

#include "engine/cuda/narrow/linear.h"
#include "engine/cuda/parts/epilogue.h"
#include "engine/cuda/parts/layer_norm.h"

namespace bochner::cuda {

void linear(const LinearSizes& sizes, const Tensor& x, const LinearWeights& weights, const Tensor& residual,
            const LinearSpec& spec, const LinearResult& result) {
  if (narrow::linear(sizes, x, weights, residual, spec, result)) return;
  const Tensor from = x.view({sizes.rows, sizes.inputs});
  const Tensor to = result.y.view({sizes.rows, sizes.outputs});
  Tensor n = from;
  if (weights.gamma.defined()) {
    n = Tensor::empty(from.shape(), x.dtype(), x.device());
    layer_norm(from, {weights.gamma, weights.beta}, spec.eps, {n, {result.mean, result.rstd}});
  }
  const Tensor others = residual.defined() ? residual.view({sizes.rows, sizes.outputs}) : Tensor();
  multiply(n, false, weights.w.cast(x.dtype()), true, to, false);
  visit_stored(x.dtype(), "linear", [&]<class S>(TypeTag<S>) {
    visit_activation(spec.relu ? Activation::relu : Activation::identity,
                     [&](const auto& act) { epilogue<S>(act, spec.drop, 0, to, weights.b, others, to); });
  });
}

void linear_backward(const LinearSizes& sizes, const Tensor& g, const Tensor& x, const LinearResult& made,
                     const LinearWeights& weights, const LinearSpec& spec, const LinearGradients& result) {
  if (narrow::linear_backward(sizes, g, x, made, weights, spec, result)) return;
  const Tensor from = x.view({sizes.rows, sizes.inputs});
  const bool norm = weights.gamma.defined();
  Tensor n = from;
  if (norm) {
    n = Tensor::empty(from.shape(), x.dtype(), x.device());
    layer_norm_apply(from, {weights.gamma, weights.beta}, {made.mean, made.rstd}, n);
  }
  Tensor e = g.view({sizes.rows, sizes.outputs});
  visit_stored(x.dtype(), "linear", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const bool masks = spec.relu || spec.drop.active();
    if (masks || result.weights.b.defined()) {
      const Tensor sums =
          result.weights.b.defined() ? result.weights.b : Tensor::empty({sizes.outputs}, dtype_of<T>, x.device());
      const Tensor masked = masks ? Tensor::empty(e.shape(), x.dtype(), x.device()) : Tensor();
      strip_sums<1, T>(sizes.rows, sizes.outputs,
                       Masked<S>{spec.drop.active(), DropoutFactors<T>(spec.drop), 0, sizes.outputs, g.data<S>(),
                                 masks ? masked.data<S>() : nullptr, spec.relu ? made.y.data<S>() : nullptr,
                                 spec.drop.active() ? static_cast<T>(spec.drop.scale()) : T(1)},
                       {sums.data<T>()});
      if (masks) e = masked;
    }
  });
  if (result.weights.w.defined()) multiply(e, true, n, false, result.weights.w, false);  // dW = e^T n
  if (!result.dx.defined()) return;
  const Tensor dx = result.dx.view({sizes.rows, sizes.inputs});
  multiply(e, false, weights.w.cast(x.dtype()), false, dx, false);  // dn = e W
  if (norm) {
    layer_norm_backward(dx, from, weights.gamma, {made.mean, made.rstd}, Tensor(),
                        {dx, result.weights.gamma, result.weights.beta});
  }
}

}  // namespace bochner::cuda
