#include "engine/ops/feed_forward.h"

#include <optional>

#include "engine/bf16.h"
#include "engine/cpu/parts/activation.h"
#include "engine/cpu/parts/block_rows.h"
#include "engine/cpu/parts/norm_rows.h"
#include "engine/cpu/parts/packed_weights.h"

namespace bochner::cpu {
namespace {

/// Rows per tile: enough to reuse the weights that pass through the caches, and few enough to stay there themselves.
int64_t tile_rows(const FeedForwardSizes& sizes) { return sizes.dim > 128 && sizes.dim <= 512 ? 96 : 64; }
/// Twice as many in the backward pass of bf16: each tile is added to weight gradients in a far cache, and packed
/// factors take half the space.
template <class S>
int64_t backward_tile_rows(const FeedForwardSizes& sizes) {
  return (std::is_same_v<S, bfloat16> ? 2 : 1) * tile_rows(sizes);
}
int64_t chunk_width(const FeedForwardSizes& sizes) { return std::min(sizes.hidden, kWeightChunk); }
int64_t chunks_of(const FeedForwardSizes& sizes) { return ceil_div(sizes.hidden, kWeightChunk); }

template <class S, class Act>
class Forward {
 public:
  using T = ComputeType<S>;
  Forward(const FeedForwardSizes& sizes, const Tensor& x, const FeedForwardWeights& weights,
          const FeedForwardOptions& options, const FeedForwardResult& result, Act act)
      : sizes_(sizes),
        options_(options),
        act_(act),
        w1_transposed_(weights.w1, sizes.dim, sizes.hidden, {1, sizes.dim}, Cut::columns),
        w2_transposed_(weights.w2, sizes.hidden, sizes.dim, {1, sizes.hidden}, Cut::depth) {
    norm_ = weights.gamma.defined();
    x_ = x.data<S>();
    b1_ = weights.b1.data<T>();
    b2_ = weights.b2.data<T>();
    y_ = result.y.data<S>();
    if (result.hidden.defined()) hidden_ = result.hidden.data<S>();
    if (!norm_) return;
    gamma_ = weights.gamma.data<T>();
    beta_ = weights.beta.data<T>();
    mean_ = result.mean.data<T>();
    rstd_ = result.rstd.data<T>();
  }

  void operator()(int64_t begin, int64_t end) const {
    const int64_t tile = tile_rows(sizes_);
    const int64_t n_stride = padded<T>(sizes_.dim);
    const int64_t h_stride = padded<T>(chunk_width(sizes_));
    const Factor<S> factor_of_n(tile, sizes_.dim);
    const Factor<S> factor_of_h(tile, chunk_width(sizes_));
    Scratch<T> scratch({tile * n_stride, tile * h_stride, tile * sizes_.dim});
    T* const n = scratch.take(tile * n_stride);
    T* const h = scratch.take(tile * h_stride);
    T* const sum = scratch.take(tile * sizes_.dim);
    DropoutWindow<T> inner(options_.inner);
    DropoutWindow<T> outer(options_.outer);
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t rows = std::min(tile, end - row);
      const S* from = x_ + row * sizes_.dim;
      Left<S> input;
      if (norm_) {
        row_moments(from, rows, sizes_.dim, static_cast<T>(options_.eps), mean_ + row, rstd_ + row);
        normalise_rows(from, rows, sizes_.dim, mean_ + row, rstd_ + row, gamma_, beta_, n, n_stride);
        input = factor_of_n.left(rows, sizes_.dim, n, {n_stride, 1});
      } else {
        input = factor_of_n.left(rows, sizes_.dim, from, {sizes_.dim, 1});
      }
      for (int64_t c = 0; c < chunks_of(sizes_); ++c) {
        const int64_t first = c * kWeightChunk;
        const int64_t width = std::min(kWeightChunk, sizes_.hidden - first);
        multiply<S>(rows, width, sizes_.dim, input, w1_transposed_.chunk(c), h, h_stride);
        for_each_masked_row(options_.inner, inner, row * sizes_.hidden + first, rows, width, sizes_.hidden,
                            [=, this, b = b1_ + first](int64_t r, const auto& factor) {
                              T* u = h + r * h_stride;
                              if (hidden_ != nullptr) move_row(width, u, hidden_ + (row + r) * sizes_.hidden + first);
#pragma omp simd
                              for (int64_t j = 0; j < width; ++j) u[j] = act_.forward(u[j] + b[j]) * factor(j);
                            });
        multiply<S>(rows, sizes_.dim, width, factor_of_h.left(rows, width, h, {h_stride, 1}), w2_transposed_.chunk(c),
                    sum, sizes_.dim, c > 0);
      }
      if (!options_.outer.active()) {
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t at = r * sizes_.dim;
          finish_row(sizes_.dim, sum + at, b2_, options_.residual ? from + at : nullptr, y_ + row * sizes_.dim + at);
        }
        continue;
      }
      const T keep = options_.residual ? T(1) : T(0);
      for_each_masked_run(options_.outer, outer, row * sizes_.dim, rows, sizes_.dim,
                          [=, this](int64_t r, int64_t first, int64_t width, const auto& factor) {
                            const int64_t at = r * sizes_.dim + first;
                            T* s = sum + at;
                            const T* b = b2_ + first;
                            const S* base = from + at;
                            S* y = y_ + row * sizes_.dim + at;
                            T* to = s;
                            if constexpr (std::is_same_v<S, T>) to = y;
                            // fma, since y may come right after b2 (lanes.h)
                            for (int64_t j = 0; j < width; ++j)
                              to[j] = math::fma(keep, static_cast<T>(base[j]), (s[j] + b[j]) * factor(j));
                            move_row(width, to, y);
                          });
    }
  }

 private:
  FeedForwardSizes sizes_;
  FeedForwardOptions options_;
  Act act_;
  PackedWeights<S> w1_transposed_, w2_transposed_;
  bool norm_;
  const S* x_;
  const T *b1_, *b2_, *gamma_ = nullptr, *beta_ = nullptr;
  S *y_, *hidden_ = nullptr;
  T *mean_ = nullptr, *rstd_ = nullptr;
};

/// The gradients of all weights, one after another, as each piece of a backward pass sums them.
struct GradientLayout {
  GradientLayout(const FeedForwardSizes& sizes, bool has_w)
      : with_w(has_w),
        w1(0),
        w2(has_w ? sizes.hidden * sizes.dim : 0),
        b1(2 * w2),
        b2(b1 + sizes.hidden),
        gamma(b2 + sizes.dim),
        beta(gamma + sizes.dim),
        size(beta + sizes.dim) {}
  bool with_w;  ///< including those of W1 and W2
  int64_t w1, w2, b1, b2, gamma, beta, size;
};

template <class S, class Act>
class BackwardPass {
 public:
  using T = ComputeType<S>;
  BackwardPass(const FeedForwardSizes& sizes, const Tensor& g, const Tensor& x, const FeedForwardResult& made,
               const FeedForwardWeights& weights, const FeedForwardOptions& options, const GradientLayout& layout,
               S* dx, Act act)
      : sizes_(sizes),
        options_(options),
        act_(act),
        layout_(layout),
        w1_(weights.w1, sizes.hidden, sizes.dim, {sizes.dim, 1}, Cut::depth),
        w2_(weights.w2, sizes.dim, sizes.hidden, {sizes.hidden, 1}, Cut::columns),
        dx_(dx) {
    norm_ = weights.gamma.defined();
    g_ = g.data<S>();
    x_ = x.data<S>();
    b1_ = weights.b1.data<T>();
    if (made.hidden.defined()) {
      hidden_ = made.hidden.data<S>();
    } else {
      w1_transposed_.emplace(weights.w1, sizes.dim, sizes.hidden, TileStrides{1, sizes.dim}, Cut::columns);
    }
    if (!norm_) return;
    gamma_ = weights.gamma.data<T>();
    beta_ = weights.beta.data<T>();
    mean_ = made.mean.data<T>();
    rstd_ = made.rstd.data<T>();
  }

  /// Rows [begin, end), whose weight gradients are added to `sums`.
  void operator()(int64_t begin, int64_t end, T* sums) const {
    const int64_t dim = sizes_.dim;
    const int64_t tile = backward_tile_rows<S>(sizes_);
    const int64_t n_stride = padded<T>(dim);
    const int64_t h_stride = padded<T>(chunk_width(sizes_));
    const int64_t chunk = chunk_width(sizes_);
    const Factor<S> factor_of_n(tile, dim), factor_of_e(tile, dim), right_n(dim, tile), left_et(dim, tile);
    const Factor<S> factor_of_h(chunk, tile), left_dut(chunk, tile), left_du(tile, chunk);
    Scratch<T> scratch({tile * n_stride, tile * n_stride, tile * h_stride, tile * h_stride, tile * dim});
    T* const n = scratch.take(tile * n_stride);
    T* const e = scratch.take(tile * n_stride);
    T* const h = scratch.take(tile * h_stride);
    T* const du = scratch.take(tile * h_stride);
    T* const dn = scratch.take(tile * dim);
    DropoutWindow<T> inner(options_.inner);
    DropoutWindow<T> outer(options_.outer);
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t rows = std::min(tile, end - row);
      const S* const from = x_ + row * dim;
      const S* const gradient = g_ + row * dim;
      if (norm_) {
        normalise_rows(from, rows, dim, mean_ + row, rstd_ + row, gamma_, beta_, n, n_stride);
      } else {
        for (int64_t r = 0; r < rows; ++r) move_row(dim, from + r * dim, n + r * n_stride);
      }
      Left<S> n_left;
      if (hidden_ == nullptr) n_left = factor_of_n.left(rows, dim, n, {n_stride, 1});
      Left<S> e_left, e_transposed;
      const auto take = [&](const auto* g, int64_t stride) {
        add_rows(rows, dim, g, stride, sums + layout_.b2);
        e_left = factor_of_e.left(rows, dim, g, {stride, 1});
        e_transposed = left_et.left(dim, rows, g, {1, stride});
      };
      if (!options_.outer.active() && reads_in_place<S>(dim)) {
        take(gradient, dim);
      } else {
        for_each_masked_run(options_.outer, outer, row * dim, rows, dim,
                            [=](int64_t r, int64_t first, int64_t width, const auto& factor) {
                              const S* a = gradient + r * dim + first;
                              T* to = e + r * n_stride + first;
                              for (int64_t j = 0; j < width; ++j) to[j] = static_cast<T>(a[j]) * factor(j);
                            });
        take(static_cast<const T*>(e), n_stride);
      }
      const Right<S> n_right = right_n.right(rows, dim, n, {n_stride, 1});
      for (int64_t c = 0; c < chunks_of(sizes_); ++c) {
        const int64_t first = c * kWeightChunk;
        const int64_t width = std::min(kWeightChunk, sizes_.hidden - first);
        multiply<S>(rows, width, dim, e_left, w2_.chunk(c), du, h_stride);  // dh
        const auto activate = [&](const auto* product, int64_t stride) {    // n W1^T
          for_each_masked_row(options_.inner, inner, row * sizes_.hidden + first, rows, width, sizes_.hidden,
                              [=, this, b = b1_ + first](int64_t r, const auto& factor) {
                                const auto* const p = product + r * stride;
                                T* u = h + r * h_stride;
                                T* d = du + r * h_stride;
#pragma omp simd
                                for (int64_t j = 0; j < width; ++j) {
                                  const ValueAndSlope<T> y = act_.value_and_slope(static_cast<T>(p[j]) + b[j]);
                                  const T keep = factor(j);
                                  u[j] = y.value * keep;
                                  d[j] *= y.slope * keep;
                                }
                              });
        };
        if (hidden_ == nullptr) {
          multiply<S>(rows, width, dim, n_left, w1_transposed_->chunk(c), h, h_stride);
          activate(h, h_stride);
        } else {
          activate(hidden_ + row * sizes_.hidden + first, sizes_.hidden);
        }
        add_rows(rows, width, du, h_stride, sums + layout_.b1 + first);
        if (layout_.with_w) {
          multiply<S>(dim, width, rows, e_transposed, factor_of_h.right(rows, width, h, {h_stride, 1}),
                      sums + layout_.w2 + first, sizes_.hidden, true);
          multiply<S>(width, dim, rows, left_dut.left(width, rows, du, {1, h_stride}), n_right,
                      sums + layout_.w1 + first * dim, dim, true);
        }
        multiply<S>(rows, dim, width, left_du.left(rows, width, du, {h_stride, 1}), w1_.chunk(c), dn, dim, c > 0);
      }
      S* const to = dx_ + row * dim;
      if (norm_) {
        normalise_rows_backward(dn, from, rows, dim, mean_ + row, rstd_ + row, gamma_,
                                options_.residual ? gradient : nullptr, to, sums + layout_.gamma, sums + layout_.beta);
      } else {
        const T keep = options_.residual ? T(1) : T(0);
        for_lanes<T>(rows * dim, [=]<class V>(TypeTag<V>, int64_t j) {
          store<V>(to + j, load<V>(dn + j) + keep * load<V>(gradient + j));
        });
      }
    }
  }

 private:
  FeedForwardSizes sizes_;
  FeedForwardOptions options_;
  Act act_;
  GradientLayout layout_;
  std::optional<PackedWeights<S>> w1_transposed_;  ///< for recomputing the hidden layer
  PackedWeights<S> w1_, w2_;
  bool norm_;
  const S *g_, *x_, *hidden_ = nullptr;
  const T *b1_, *gamma_ = nullptr, *beta_ = nullptr, *mean_ = nullptr, *rstd_ = nullptr;
  S* dx_;
};

}  // namespace

void feed_forward(const FeedForwardSizes& sizes, const Tensor& x, const FeedForwardWeights& weights,
                  const FeedForwardOptions& options, const FeedForwardResult& result) {
  visit_stored(x.dtype(), "feed_forward", [&]<class S>(TypeTag<S>) {
    visit_activation(options.activation, [&](const auto act) {
      const Forward<S, decltype(act)> forward(sizes, x, weights, options, result, act);
      // In small blocks, a piece has several tiles, to make up for the cost of its scratch memory.
      const int64_t tiles = std::max<int64_t>(1, 65536 / (sizes.dim * sizes.hidden));
      parallel_for(sizes.rows, tiles * tile_rows(sizes), forward);
    });
  });
}

void feed_forward_backward(const FeedForwardSizes& sizes, const Tensor& g, const Tensor& x,
                           const FeedForwardResult& made, const FeedForwardWeights& weights,
                           const FeedForwardOptions& options, const FeedForwardGradients& result) {
  visit_stored(x.dtype(), "feed_forward", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    visit_activation(options.activation, [&](const auto act) {
      const GradientLayout layout(sizes, result.weights.w1.defined());
      const BackwardPass<S, decltype(act)> backward(sizes, g, x, made, weights, options, layout, result.dx.data<S>(),
                                                    act);
      const int64_t grain = rows_per_gradient<S>(sizes.rows, layout.size, backward_tile_rows<S>(sizes));
      const Tensor total = sum_gradients<T>(sizes.rows, grain, layout.size, backward);
      hand_out<T>(total, layout.w1, result.weights.w1);
      hand_out<T>(total, layout.w2, result.weights.w2);
      hand_out<T>(total, layout.b1, result.weights.b1);
      hand_out<T>(total, layout.b2, result.weights.b2);
      hand_out<T>(total, layout.gamma, result.weights.gamma);
      hand_out<T>(total, layout.beta, result.weights.beta);
    });
  });
}

}  // namespace bochner::cpu
