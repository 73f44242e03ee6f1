// The block as a composition: BLAS products on pieces of rows, one fused pass before and after each product, and memory
// for the hidden activations of only one piece; narrow blocks have their own kernels.
#include "engine/ops/feed_forward.h"

#include <algorithm>

#include "engine/cuda/narrow/feed_forward.h"
#include "engine/cuda/parts/epilogue.h"
#include "engine/cuda/parts/layer_norm.h"

namespace bochner::cuda {
namespace {

/// The number of elements of the hidden layer that are in memory at once.
constexpr int64_t kHeld = int64_t{1} << 26;

int64_t rows_at_once(const FeedForwardSizes& sizes) { return std::max<int64_t>(1024, kHeld / sizes.hidden); }

/// Replaces dh by du = dh m act'(u + b), writes h = act(u + b) m, which may overwrite u, and sums the columns of du.
template <class S, class Act>
struct HiddenBackward {
  using T = ComputeType<S>;
  Act act;
  bool drops;
  DropoutFactors<T> drop;
  int64_t first, columns;
  const T* bias;
  const S* u;
  S *h, *dh;

  bool movable() const { return aligned(bias) && aligned(u) && aligned(h) && aligned(dh); }
  template <int V>
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, Vector<T, V> (&sums)[1]) const {
    const int64_t at = row * columns + column;
    Vector<T, V> x = load_as<T, V>(u + at);
    Vector<T, V> value = load_as<T, V>(dh + at);
    const Vector<T, V> shift = load<V>(bias + column);
    Vector<T, V> factor;
#pragma unroll
    for (int j = 0; j < V; ++j) factor.at[j] = T(1);
    if (drops) drop.read(first + at, factor.at);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Activated<T> made = act.template at<S>(x.at[j] + shift.at[j]);
      x.at[j] = made.value * factor.at[j];
      value.at[j] *= factor.at[j] * made.slope;
      sums[0].at[j] += value.at[j];
    }
    store_from(h + at, x);
    store_from(dh + at, value);
  }
};

/// to += from, or to = from for the first of several.
template <class S>
struct AddTo {
  using T = ComputeType<S>;
  bool first;
  const S* from;
  S* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    to[i] = first ? from[i] : static_cast<S>(static_cast<T>(to[i]) + static_cast<T>(from[i]));
  }
};

/// Rows [begin, begin + count) as a tensor.
Tensor rows(const Tensor& x, int64_t begin, int64_t count, int64_t columns) {
  return x.view({x.size() / columns, columns}).slice(0, begin, begin + count);
}
Tensor entries(const Tensor& x, int64_t begin, int64_t count) {
  return x.view({x.size()}).slice(0, begin, begin + count);
}

}  // namespace

void feed_forward(const FeedForwardSizes& sizes, const Tensor& x, const FeedForwardWeights& weights,
                  const FeedForwardOptions& options, const FeedForwardResult& result) {
  if (narrow::feed_forward(sizes, x, weights, options, result)) return;
  const int64_t step = std::min(sizes.rows, rows_at_once(sizes));
  const bool norm = weights.gamma.defined();
  const Tensor hidden = Tensor::empty({step, sizes.hidden}, x.dtype(), x.device());
  const Tensor normalised = norm ? Tensor::empty({step, sizes.dim}, x.dtype(), x.device()) : Tensor();
  const Tensor w1 = weights.w1.cast(x.dtype());
  const Tensor w2 = weights.w2.cast(x.dtype());
  visit_stored(x.dtype(), "feed_forward", [&]<class S>(TypeTag<S>) {
    for (int64_t begin = 0; begin < sizes.rows; begin += step) {
      const int64_t count = std::min(step, sizes.rows - begin);
      const Tensor from = rows(x, begin, count, sizes.dim);
      const Tensor to = rows(result.y, begin, count, sizes.dim);
      const Tensor h = rows(hidden, 0, count, sizes.hidden);
      Tensor n = from;
      if (norm) {
        n = rows(normalised, 0, count, sizes.dim);
        layer_norm(from, {weights.gamma, weights.beta}, options.eps,
                   {n, {entries(result.mean, begin, count), entries(result.rstd, begin, count)}});
      }
      const Tensor u = result.hidden.defined() ? rows(result.hidden, begin, count, sizes.hidden) : h;
      multiply(n, false, w1, true, u, false);
      visit_activation(options.activation, [&](auto act) {
        epilogue<S>(act, options.inner, begin * sizes.hidden, u, weights.b1, Tensor(), h);
      });
      multiply(h, false, w2, true, to, false);
      epilogue<S>(IdentityActivation{}, options.outer, begin * sizes.dim, to, weights.b2,
                  options.residual ? from : Tensor(), to);
    }
  });
}

void feed_forward_backward(const FeedForwardSizes& sizes, const Tensor& g, const Tensor& x,
                           const FeedForwardResult& made, const FeedForwardWeights& weights,
                           const FeedForwardOptions& options, const FeedForwardGradients& result) {
  if (narrow::feed_forward_backward(sizes, g, x, made, weights, options, result)) return;
  const int64_t step = std::min(sizes.rows, rows_at_once(sizes));
  const bool norm = weights.gamma.defined();
  const auto scratch = [&](int64_t columns) { return Tensor::empty({step, columns}, x.dtype(), x.device()); };
  const Tensor hidden = scratch(sizes.hidden);
  const Tensor hidden_gradient = scratch(sizes.hidden);
  const Tensor outgoing = options.outer.active() ? scratch(sizes.dim) : Tensor();  // otherwise g itself
  const Tensor normalised = norm ? scratch(sizes.dim) : Tensor();
  const Tensor w1 = weights.w1.cast(x.dtype());
  const Tensor w2 = weights.w2.cast(x.dtype());
  visit_stored(x.dtype(), "feed_forward", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const Tensor sums = Tensor::empty({sizes.hidden + sizes.dim}, dtype_of<T>, x.device());
    T* const db1 = sums.data<T>();
    T* const db2 = db1 + sizes.hidden;
    const auto add = []<class Term>(bool first, const Term* from, const Tensor& to) {
      if (to.defined()) launch_threads(to.size(), AddTo<Term>{first, from, to.data<Term>()});
    };
    for (int64_t begin = 0; begin < sizes.rows; begin += step) {
      const int64_t count = std::min(step, sizes.rows - begin);
      const Tensor from = rows(x, begin, count, sizes.dim);
      const Tensor dx = rows(result.dx, begin, count, sizes.dim);
      const Tensor h = rows(hidden, 0, count, sizes.hidden);
      const Tensor u = made.hidden.defined() ? rows(made.hidden, begin, count, sizes.hidden) : h;
      const Tensor du = rows(hidden_gradient, 0, count, sizes.hidden);
      const Tensor e = outgoing.defined() ? rows(outgoing, 0, count, sizes.dim) : rows(g, begin, count, sizes.dim);
      Tensor n = from;
      if (norm) {
        n = rows(normalised, 0, count, sizes.dim);
        layer_norm_apply(from, {weights.gamma, weights.beta},
                         {entries(made.mean, begin, count), entries(made.rstd, begin, count)}, n);
      }
      if (!made.hidden.defined()) multiply(n, false, w1, true, u, false);  // u = n W1^T
      strip_sums<1, T>(count, sizes.dim,
                       Masked<S>{options.outer.active(), DropoutFactors<T>(options.outer), begin * sizes.dim, sizes.dim,
                                 g.data<S>() + begin * sizes.dim, outgoing.defined() ? e.data<S>() : nullptr},
                       {db2});
      multiply(e, false, w2, false, du, false);  // dh = e W2
      visit_activation(options.activation, [&]<class Act>(Act act) {
        strip_sums<1, T>(
            count, sizes.hidden,
            HiddenBackward<S, Act>{act, options.inner.active(), DropoutFactors<T>(options.inner), begin * sizes.hidden,
                                   sizes.hidden, weights.b1.data<T>(), u.data<S>(), h.data<S>(), du.data<S>()},
            {db1});
      });
      if (result.weights.w1.defined()) {
        multiply(e, true, h, false, result.weights.w2, begin > 0);   // dW2 += e^T h
        multiply(du, true, n, false, result.weights.w1, begin > 0);  // dW1 += du^T n
      }
      multiply(du, false, w1, false, dx, false);  // dn = du W1
      add(begin == 0, db1, result.weights.b1);
      add(begin == 0, db2, result.weights.b2);
    }
    if (norm) {
      layer_norm_backward(result.dx, rows(x, 0, sizes.rows, sizes.dim), weights.gamma, {made.mean, made.rstd},
                          options.residual ? g : Tensor(), {result.dx, result.weights.gamma, result.weights.beta});
    } else if (options.residual) {
      add(false, g.data<S>(), result.dx);
    }
  });
}

}  // namespace bochner::cuda
