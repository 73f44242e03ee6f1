#include "engine/ops/feed_forward.h"

#include "engine/kernel.h"
#include "engine/ops/layer_weights.h"
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
  require_stored(x.dtype(), "feed_forward");
  if (x.rank() == 0 || weights.w1.rank() != 2 || weights.w1.size(1) != x.size(-1))
    fail("feed_forward: W1 {} must be (hidden, dim) for x {}", weights.w1.str(), x.str());
  const int64_t dim = x.size(-1);
  const int64_t hidden = weights.w1.size(0);
  check_weight("feed_forward", "W1", weights.w1, {hidden, dim}, x);
  check_weight("feed_forward", "W2", weights.w2, {dim, hidden}, x);
  check_bias("feed_forward", "b1", weights.b1, hidden, x);
  check_bias("feed_forward", "b2", weights.b2, dim, x);
  check_norm("feed_forward", weights.gamma, weights.beta, x);
  return {dim == 0 ? 0 : x.size() / dim, dim, hidden};
}

/// Contiguous, biases filled in.
FeedForwardWeights complete(const FeedForwardWeights& weights, const FeedForwardSizes& sizes, const Tensor& x) {
  return {.w1 = weights.w1.contiguous(),
          .b1 = bias_or_zeros(weights.b1, sizes.hidden, x),
          .w2 = weights.w2.contiguous(),
          .b2 = bias_or_zeros(weights.b2, sizes.dim, x),
          .gamma = weights.gamma.contiguous(),
          .beta = weights.beta.contiguous()};
}

double products_of(const FeedForwardSizes& sizes) { return product(sizes.rows, sizes.dim, sizes.hidden); }

}  // namespace

FeedForwardResult feed_forward(const Tensor& x, const FeedForwardWeights& weights, const FeedForwardOptions& options) {
  const FeedForwardSizes sizes = checked_sizes(x, weights);
  if (sizes.rows > 0 && sizes.hidden == 0) fail("feed_forward: a hidden layer of size 0 computes nothing");
  FeedForwardResult result{Tensor::empty_like(x), {}, {}, {}};
  if (weights.gamma.defined()) {
    const auto make = products_of(sizes) > 0 ? Tensor::empty : Tensor::zeros;
    result.mean = make(x.shape().without_last(), compute_dtype(x.dtype()), x.device());
    result.rstd = make(x.shape().without_last(), compute_dtype(x.dtype()), x.device());
  }
  if (options.keep_hidden) result.hidden = Tensor::empty(x.shape().with_last(sizes.hidden), x.dtype(), x.device());
  if (products_of(sizes) > 0) {
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
  if (weights.gamma.defined()) check_statistics("feed_forward", made.mean, made.rstd, x);
  if (made.hidden.defined() &&
      (!(made.hidden.shape() == x.shape().with_last(sizes.hidden)) || made.hidden.dtype() != x.dtype()))
    fail("feed_forward: what was kept of the hidden layer, {}, does not fit x {}", made.hidden.str(), x.str());
  const auto like = products_of(sizes) > 0 ? Tensor::empty_like : Tensor::zeros_like;
  const FeedForwardGradients result{like(x),
                                    {.w1 = like(need_w ? weights.w1 : Tensor()),
                                     .b1 = like(weights.b1),
                                     .w2 = like(need_w ? weights.w2 : Tensor()),
                                     .b2 = like(weights.b2),
                                     .gamma = like(weights.gamma),
                                     .beta = like(weights.beta)}};
  if (products_of(sizes) > 0) {
    work::add_flops((need_w ? 8 : 4) * products_of(sizes));
    const FeedForwardResult kept{{}, made.mean.contiguous(), made.rstd.contiguous(), made.hidden.contiguous()};
    kFeedForwardBackward(x.device(), sizes, g.contiguous(), x.contiguous(), kept, complete(weights, sizes, x), options,
                         result);
  }
  return result;
}

}  // namespace bochner
