#include "engine/ops/feed_forward.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/work.h"

namespace bochner {

// All contiguous, of one floating type, and positive sizes. Biases are defined; mean, rstd (rows), gamma and beta are
// undefined together for a block without norm. What is kept of the hidden layer is (rows, hidden), or undefined.

BOCHNER_KERNEL(kFeedForward, "feed_forward", feed_forward, const FeedForwardSizes& sizes, const Tensor& x,
               const FeedForwardWeights& weights, const FeedForwardOptions& options, const FeedForwardResult& result);
// Fills what is defined of `result`; W1 and W2 are both defined or neither.
BOCHNER_KERNEL(kFeedForwardBackward, "feed_forward_backward", feed_forward_backward, const FeedForwardSizes& sizes,
               const Tensor& g, const Tensor& x, const FeedForwardResult& made, const FeedForwardWeights& weights,
               const FeedForwardOptions& options, const FeedForwardGradients& result);

namespace {

FeedForwardSizes checked_sizes(const Tensor& x, const FeedForwardWeights& weights) {
  visit_stored(x.dtype(), "feed_forward", [](auto) {});
  const DType dtype = compute_dtype(x.dtype());
  if (x.rank() == 0 || !weights.w1.defined() || weights.w1.rank() != 2 || weights.w1.size(1) != x.size(-1))
    fail("feed_forward: W1 {} must be (hidden, dim) for x {}", weights.w1.str(), x.str());
  const int64_t dim = x.size(-1);
  const int64_t hidden = weights.w1.size(0);
  const auto check = [&](const char* name, const Tensor& weight, const Shape& shape, bool optional) {
    if (!weight.defined() && optional) return;
    if (!weight.defined() || !(weight.shape() == shape) || weight.dtype() != dtype)
      fail("feed_forward: {} {} must be {} {} for x {}", name, weight.str(), name_of(dtype), shape.str(), x.str());
  };
  check("W1", weights.w1, {hidden, dim}, false);
  check("W2", weights.w2, {dim, hidden}, false);
  check("b1", weights.b1, {hidden}, true);
  check("b2", weights.b2, {dim}, true);
  check("gamma", weights.gamma, {dim}, true);
  check("beta", weights.beta, {dim}, true);
  if (weights.gamma.defined() != weights.beta.defined())
    fail("feed_forward: gamma and beta come together; without them there is no norm");
  return {dim == 0 ? 0 : x.size() / dim, dim, hidden};
}

Tensor contiguous_or(const Tensor& given, const Shape& shape, const Tensor& x) {
  return given.defined() ? given.contiguous() : Tensor::zeros(shape, compute_dtype(x.dtype()), x.device());
}

/// Contiguous, biases filled in.
FeedForwardWeights complete(const FeedForwardWeights& weights, const FeedForwardSizes& sizes, const Tensor& x) {
  FeedForwardWeights result = weights;
  result.w1 = weights.w1.contiguous();
  result.w2 = weights.w2.contiguous();
  result.b1 = contiguous_or(weights.b1, {sizes.hidden}, x);
  result.b2 = contiguous_or(weights.b2, {sizes.dim}, x);
  if (weights.gamma.defined()) {
    result.gamma = weights.gamma.contiguous();
    result.beta = weights.beta.contiguous();
  }
  return result;
}

double products_of(const FeedForwardSizes& sizes) {
  return static_cast<double>(sizes.rows) * static_cast<double>(sizes.dim) * static_cast<double>(sizes.hidden);
}

Shape hidden_shape(const Tensor& x, const FeedForwardSizes& sizes) {
  Shape shape = x.shape();
  shape[-1] = sizes.hidden;
  return shape;
}

bool has_work(const FeedForwardSizes& sizes) { return sizes.rows > 0 && sizes.dim > 0 && sizes.hidden > 0; }

}  // namespace

FeedForwardResult feed_forward(const Tensor& x, const FeedForwardWeights& weights, const FeedForwardOptions& options) {
  const FeedForwardSizes sizes = checked_sizes(x, weights);
  if (sizes.rows > 0 && sizes.hidden == 0) fail("feed_forward: a hidden layer of size 0 computes nothing");
  FeedForwardResult result{Tensor::empty_like(x), {}, {}, {}};
  if (weights.gamma.defined()) {
    const auto make = has_work(sizes) ? Tensor::empty : Tensor::zeros;
    result.mean = make(x.shape().without_last(), compute_dtype(x.dtype()), x.device());
    result.rstd = make(x.shape().without_last(), compute_dtype(x.dtype()), x.device());
  }
  if (options.keep_hidden) result.hidden = Tensor::empty(hidden_shape(x, sizes), x.dtype(), x.device());
  if (has_work(sizes)) {
    work::add_flops(4 * products_of(sizes));
    kFeedForward(x.device(), sizes, x.contiguous(), complete(weights, sizes, x), options, result);
  }
  return result;
}

FeedForwardGradients feed_forward_backward(const Tensor& g, const Tensor& x, const FeedForwardResult& made,
                                           const FeedForwardWeights& weights, const FeedForwardOptions& options,
                                           bool need_w) {
  const FeedForwardSizes sizes = checked_sizes(x, weights);
  if (!(g.shape() == x.shape()) || g.dtype() != x.dtype())
    fail("feed_forward: the gradient {} does not fit x {}", g.str(), x.str());
  const bool norm = weights.gamma.defined();
  const Shape per_row = x.shape().without_last();
  if (norm && (!(made.mean.shape() == per_row) || !(made.rstd.shape() == per_row)))
    fail("feed_forward: mean {} and rstd {} do not fit x {}", made.mean.str(), made.rstd.str(), x.str());
  if (made.hidden.defined() && (!(made.hidden.shape() == hidden_shape(x, sizes)) || made.hidden.dtype() != x.dtype()))
    fail("feed_forward: what was kept of the hidden layer, {}, does not fit x {}", made.hidden.str(), x.str());
  const auto like = has_work(sizes) ? Tensor::empty_like : Tensor::zeros_like;
  const FeedForwardGradients result{like(x),
                                    {.w1 = like(need_w ? weights.w1 : Tensor()),
                                     .b1 = like(weights.b1),
                                     .w2 = like(need_w ? weights.w2 : Tensor()),
                                     .b2 = like(weights.b2),
                                     .gamma = like(weights.gamma),
                                     .beta = like(weights.beta)}};
  if (has_work(sizes)) {
    work::add_flops((need_w ? 8 : 4) * products_of(sizes));
    const auto contiguous = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
    const FeedForwardResult kept{{}, contiguous(made.mean), contiguous(made.rstd), contiguous(made.hidden)};
    kFeedForwardBackward(x.device(), sizes, g.contiguous(), x.contiguous(), kept, complete(weights, sizes, x), options,
                         result);
  }
  return result;
}

}  // namespace bochner
