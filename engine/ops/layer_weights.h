// Checks and completes the weights of layers that take whole rows of x: linear and feed-forward.
#pragma once

#include "engine/bf16.h"

namespace bochner {

/// Refuses, in the name of `op`, a weight whose shape is not this one, whose type is not the compute type of x, or
/// which is on another device than x.
inline void check_weight(const char* op, const char* name, const Tensor& weight, const Shape& shape, const Tensor& x) {
  const DType dtype = compute_dtype(x.dtype());
  if (!weight.defined() || !(weight.shape() == shape) || weight.dtype() != dtype || weight.device() != x.device())
    fail("{}: {} {} must be {} {} for x {}", op, name, weight.str(), name_of(dtype), shape.str(), x.str());
}

/// The same for a bias of `size` numbers, which may be undefined.
inline void check_bias(const char* op, const char* name, const Tensor& bias, int64_t size, const Tensor& x) {
  if (bias.defined()) check_weight(op, name, bias, {size}, x);
}

/// The same for the weights of a preceding norm, which are both undefined if there is none.
inline void check_norm(const char* op, const Tensor& gamma, const Tensor& beta, const Tensor& x) {
  check_bias(op, "gamma", gamma, x.size(-1), x);
  check_bias(op, "beta", beta, x.size(-1), x);
  if (gamma.defined() != beta.defined()) fail("{}: gamma and beta come together; without them there is no norm", op);
}

/// Refuses mean and rstd of a norm that do not fit the rows of x.
inline void check_statistics(const char* op, const Tensor& mean, const Tensor& rstd, const Tensor& x) {
  const Shape rows = x.shape().without_last();
  if (!(mean.shape() == rows) || !(rstd.shape() == rows))
    fail("{}: mean {} and rstd {} do not fit x {}", op, mean.str(), rstd.str(), x.str());
}

/// The bias, contiguous; zeros if it is undefined.
inline Tensor bias_or_zeros(const Tensor& bias, int64_t size, const Tensor& x) {
  return bias.defined() ? bias.contiguous() : Tensor::zeros({size}, compute_dtype(x.dtype()), x.device());
}

/// a b c, for a product of matrices of these sizes.
inline double product(int64_t a, int64_t b, int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

}  // namespace bochner
