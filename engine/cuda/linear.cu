// A composition: one product of the BLAS, and one fused pass on each side of it.
#include "engine/cuda/linear.h"

#include "engine/cuda/epilogue.h"
#include "engine/cuda/norm.h"

namespace bochner::cuda {

void linear(const LinearSizes& sizes, const Tensor& x, const LinearWeights& weights, const Tensor& residual,
            const LinearSpec& spec, const LinearResult& result) {
  const Tensor from = x.view({sizes.rows, sizes.inputs});
  const Tensor to = result.y.view({sizes.rows, sizes.outputs});
  Tensor n = from;
  if (weights.gamma.defined()) {
    n = Tensor::empty(from.shape(), x.dtype(), x.device());
    layer_norm(sizes.rows, sizes.inputs, from, weights.gamma, weights.beta, spec.eps, n, result.mean, result.rstd);
  }
  multiply(n, false, weights.w, true, to, false);
  visit_floating(x.dtype(), "linear", [&]<class T>(TypeTag<T>) {
    epilogue<T>(IdentityActivation{}, spec.drop, 0, to, weights.b, residual, to);
  });
}

void linear_backward(const LinearSizes& sizes, const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                     const LinearWeights& weights, const LinearSpec& spec, const LinearGradients& result) {
  const Tensor from = x.view({sizes.rows, sizes.inputs});
  const bool norm = weights.gamma.defined();
  Tensor n = from;
  if (norm) {
    n = Tensor::empty(from.shape(), x.dtype(), x.device());
    layer_norm_apply(sizes.rows, sizes.inputs, from, weights.gamma, weights.beta, mean, rstd, n);
  }
  Tensor e = g.view({sizes.rows, sizes.outputs});
  visit_floating(x.dtype(), "linear", [&]<class T>(TypeTag<T>) {
    if (spec.drop.active() || result.weights.b.defined()) {
      const Tensor sums =
          result.weights.b.defined() ? result.weights.b : Tensor::empty({sizes.outputs}, x.dtype(), x.device());
      const Tensor masked = spec.drop.active() ? Tensor::empty(e.shape(), x.dtype(), x.device()) : Tensor();
      strip_sums<1, T>(sizes.rows, sizes.outputs,
                       Masked<T>{spec.drop.active(), typename FactorReader<T>::Params(spec.drop), 0, sizes.outputs,
                                 g.data<T>(), spec.drop.active() ? masked.data<T>() : nullptr},
                       {sums.data<T>()});
      if (spec.drop.active()) e = masked;
    }
  });
  multiply(e, true, n, false, result.weights.w, false);  // dW = e^T n
  if (!result.dx.defined()) return;
  const Tensor dx = result.dx.view({sizes.rows, sizes.inputs});
  multiply(e, false, weights.w, false, dx, false);  // dn = e W
  if (norm) {
    layer_norm_backward(sizes.rows, sizes.inputs, dx, from, weights.gamma, mean, rstd, Tensor(), dx,
                        result.weights.gamma, result.weights.beta);
  }
}

}  // namespace bochner::cuda
