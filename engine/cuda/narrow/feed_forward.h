// The feed-forward block of engine/ops/feed_forward.h for bf16 inputs 64 wide and 128 hidden units, as one kernel
// forward and one backward (narrow/rows.h): hidden units stay in registers, or in shared memory as factors of the
// weights' gradients.
#pragma once

#include "engine/cuda/narrow/rows.h"
#include "engine/cuda/parts/activation.h"
#include "engine/ops/feed_forward.h"

namespace bochner::cuda::narrow {

constexpr int kHidden = 128;
constexpr int kHiddenStride = kHidden + kGap;
constexpr int kHiddenChunk = 32;  ///< hidden units that a warp processes at once

/// What both directions read, and where it is in shared memory. A block has 8 warps of 16 rows.
struct FeedForwardPart {
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRows = 16 * kWarps;
  static constexpr int kW1 = kHidden * kStride;
  static constexpr int kW2 = kDim * kHiddenStride;
  static constexpr size_t kShared = sizeof(float) * (kHidden + 3 * kDim) + sizeof(bfloat16) * (kW1 + kW2);

  int64_t rows, blocks;
  Norm norm;
  const float *w1, *b1, *w2, *b2;
  bool inner_drops, outer_drops, residual;
  DropoutFactors<float> inner, outer;

  struct Weights {
    float *b1, *b2, *gamma, *beta;
    bfloat16 *w1, *w2, *behind;
  };
  template <class Team>
  BOCHNER_DEVICE Weights load(const Team& team) const {
    Weights to{};
    to.b1 = team.template shared<float>();
    to.b2 = to.b1 + kHidden;
    to.gamma = to.b2 + kDim;
    to.beta = to.gamma + kDim;
    to.w1 = reinterpret_cast<bfloat16*>(to.beta + kDim);
    to.w2 = to.w1 + kW1;
    to.behind = to.w2 + kW2;
    load_numbers<kHidden, kThreads>(team, b1, to.b1);
    load_numbers<kDim, kThreads>(team, b2, to.b2);
    load_numbers<kDim, kThreads>(team, norm.gamma, to.gamma, 1);
    load_numbers<kDim, kThreads>(team, norm.beta, to.beta);
    load_weights<kHidden, kDim, kThreads>(team, w1, to.w1);
    load_weights<kDim, kHidden, kThreads>(team, w2, to.w2);
    return to;
  }
};

template <class Act>
struct FeedForwardRows {
  static constexpr int kThreads = FeedForwardPart::kThreads;
  static constexpr int kResident = 2;
  static constexpr size_t kShared = FeedForwardPart::kShared;
  static constexpr int64_t kMostBlocks = 264;

  FeedForwardPart of;
  Act act;
  float eps;
  const bfloat16* x;
  bfloat16* y;
  float *mean, *rstd;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto weights = of.load(team);
    team.sync();
    const uint64_t inner_from = of.inner_drops ? of.inner.place.now() : 0;
    const uint64_t outer_from = of.outer_drops ? of.outer.place.now() : 0;
    for (int64_t tile = team.index(); tile * of.kRows < of.rows; tile += of.blocks) {
      for (int s = 0; s < kWarpShare<FeedForwardPart::kWarps>; ++s) {
        const int64_t first = tile * of.kRows + 16 * warp_of(team, s);
        if (first < of.rows) strip(first, inner_from, outer_from, weights);
      }
    }
  }

  BOCHNER_DEVICE void strip(int64_t first, uint64_t inner_from, uint64_t outer_from,
                            const FeedForwardPart::Weights& weights) const {
    const auto n =
        Left<kUnits / 2>::of(normed_rows(x, first, of.rows, of.norm, eps, weights.gamma, weights.beta, mean, rstd));
    Sum<kUnits> out;
    out.clear();
#pragma unroll 1
    for (int c = 0; c < kHidden; c += kHiddenChunk) {
      Sum<kHiddenChunk / 8> h;
      h.clear();
      multiply_rows(h, n, weights.w1 + c * kStride, kStride);
      h.each([&](int, int column, float& value) {
        value = act.template at<bfloat16>(value + weights.b1[c + column]).value;
      });
      if (of.inner_drops) {
        h.with(dropout_factors<kHiddenChunk / 8>(of.inner, inner_from, first * kHidden + c, kHidden),
               [](float& value, float factor) { value *= factor; });
      }
      // W2 (64 x 128) by columns c ... c + 31
      multiply_rows(out, Left<kHiddenChunk / 16>::of(h), weights.w2 + c, kHiddenStride);
    }
    finish_rows(out, weights.b2, of.outer_drops, of.outer, outer_from, first * kDim, kDim, of.residual ? x : nullptr,
                first, of.rows);
    store_rows(out, y, kDim, first, of.rows);
  }
};

template <class Act>
struct FeedForwardRowsBackward {
  static constexpr int kWarps = FeedForwardPart::kWarps;
  static constexpr int kThreads = FeedForwardPart::kThreads;
  static constexpr int kRows = FeedForwardPart::kRows;
  static constexpr size_t kShared = FeedForwardPart::kShared + sizeof(bfloat16) * 2 * kRows * (kStride + kHiddenStride);
  static constexpr int64_t kWeight = kHidden * kDim;
  static constexpr int64_t kEntries = 2 * kWeight + kHidden + kDim;
  static constexpr int64_t kMostBlocks = 132;

  FeedForwardPart of;
  Act act;
  const bfloat16 *g, *x;
  const float *mean, *rstd;
  bfloat16* dx;
  float* parts;  ///< (blocks, kEntries): D1 (128 x 64), b1 (128), dW2 (64 x 128), db2 (64)

  /// For 128 rows: the factors of the weights' gradients.
  struct Tile {
    bfloat16 *inputs, *outputs, *hidden, *gradients;
    BOCHNER_DEVICE Tile(bfloat16* memory, int first)
        : inputs(memory + first * kStride),
          outputs(inputs + kRows * kStride),
          hidden(memory + 2 * kRows * kStride + first * kHiddenStride),
          gradients(hidden + kRows * kHiddenStride) {}
  };
  struct Own {
    Sum<kUnits> w1[1], w2[1];  ///< 16 hidden units by all inputs; 16 outputs by 64 hidden units
    Sum<2> b1, b2;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto weights = of.load(team);
    Own own[kWarpShare<kWarps>];
    for (Own& each : own) {
      each.w1[0].clear();
      each.w2[0].clear();
      each.b1.clear();
      each.b2.clear();
    }
    const uint64_t inner_from = of.inner_drops ? of.inner.place.now() : 0;
    const uint64_t outer_from = of.outer_drops ? of.outer.place.now() : 0;
    const Tile all(weights.behind, 0);
    for (int64_t tile = team.index(); tile * kRows < of.rows; tile += of.blocks) {
      team.sync();  // the weights are loaded, and the last tile has been read
      for (int s = 0; s < kWarpShare<kWarps>; ++s) {
        const int place = 16 * warp_of(team, s);
        strip(tile * kRows + place, inner_from, outer_from, weights, Tile(weights.behind, place));
      }
      team.sync();
      for (int s = 0; s < kWarpShare<kWarps>; ++s) {
        const int warp = warp_of(team, s);
        add_outer<kRows>(own[s].w1, all.gradients + 16 * warp, kHiddenStride, 0, all.inputs, kStride);
        add_outer<kRows>(own[s].w2, all.outputs + warp / 2 * 16, kStride, 0, all.hidden + warp % 2 * 64, kHiddenStride);
        add_columns<kRows>(own[s].b1, all.gradients + 16 * warp, kHiddenStride);
        add_columns<kRows>(own[s].b2, all.outputs + 16 * (warp % 4), kStride);
      }
    }
    float* const to = parts + team.index() * kEntries;
    for (int s = 0; s < kWarpShare<kWarps>; ++s) {
      const int warp = warp_of(team, s);
      keep_sums(own[s].w1[0], to + 16 * warp * kDim, kDim);
      keep_columns(own[s].b1, to + kWeight + 16 * warp);
      float* const second = to + kWeight + kHidden;
      keep_sums(own[s].w2[0], second + warp / 2 * 16 * kHidden + warp % 2 * 64, kHidden);
      if (warp < 4) keep_columns(own[s].b2, second + kWeight + 16 * warp);
    }
  }

  BOCHNER_DEVICE void strip(int64_t first, uint64_t inner_from, uint64_t outer_from,
                            const FeedForwardPart::Weights& weights, const Tile& tile) const {
    Sum<kUnits> xhat = widened(load_left<kUnits / 2>(x, kDim, first, of.rows));
    RowValues scale = RowValues::filled(1);
    if (of.norm.any()) {
      scale = row_values(rstd, first, of.rows);
      centre(xhat, row_values(mean, first, of.rows), scale);
    }
    put_rows(xhat, tile.inputs, kStride);
    join_lanes();
    const auto n = Left<kUnits / 2>::of(scaled(xhat, weights.gamma, weights.beta));
    Sum<kUnits> gradient =
        gradient_rows<kUnits>(g, kDim, first, of.rows, of.outer_drops, of.outer, outer_from, first * kDim);
    put_rows(gradient, tile.outputs, kStride);
    const auto e = Left<kUnits / 2>::of(gradient);
    Sum<kUnits> dn;
    dn.clear();
#pragma unroll 1
    for (int c = 0; c < kHidden; c += kHiddenChunk) {
      Sum<kHiddenChunk / 8> h;
      Sum<kHiddenChunk / 8> du;
      h.clear();
      du.clear();
      multiply_rows(h, n, weights.w1 + c * kStride, kStride);  // u
      multiply_columns(du, e, weights.w2 + c, kHiddenStride);  // dh
      const auto through = [&](int column, float& value, float& flow) {
        const Activated<float> made = act.template at<bfloat16>(value + weights.b1[c + column]);
        value = made.value;
        flow *= made.slope;
      };
      h.zip([&](Place at, float& value, float& flow) { through(at.column, value, flow); }, du);
      if (of.inner_drops) {
        const auto factors = dropout_factors<kHiddenChunk / 8>(of.inner, inner_from, first * kHidden + c, kHidden);
        h.with(factors, [](float& value, float factor) { value *= factor; });
        du.with(factors, [](float& value, float factor) { value *= factor; });
      }
      put_rows(h, tile.hidden + c, kHiddenStride);
      put_rows(du, tile.gradients + c, kHiddenStride);
      multiply_columns(dn, Left<kHiddenChunk / 16>::of(du), weights.w1 + c * kStride, kStride);
    }
    if (of.norm.any()) norm_gradient(dn, widened(read_left<kUnits / 2>(tile.inputs, kStride)), scale, weights.gamma);
    if (of.residual) {
      dn.with(widened(load_left<kUnits / 2>(g, kDim, first, of.rows)), [](float& value, float add) { value += add; });
    }
    store_rows(dn, dx, kDim, first, of.rows);
  }
};

inline bool takes(const FeedForwardSizes& sizes, std::initializer_list<Tensor> tensors) {
  return sizes.hidden == kHidden && is_narrow(sizes.dim, tensors);
}
inline FeedForwardPart part_of(const FeedForwardSizes& sizes, const FeedForwardWeights& weights,
                               const FeedForwardOptions& options, int64_t most_blocks) {
  const int64_t blocks = std::min(most_blocks, ceil_div(sizes.rows, FeedForwardPart::kRows));
  return {sizes.rows,
          blocks,
          norm_of(weights.gamma, weights.beta),
          weights.w1.data<float>(),
          weights.b1.data<float>(),
          weights.w2.data<float>(),
          weights.b2.data<float>(),
          options.inner.active(),
          options.outer.active(),
          options.residual,
          DropoutFactors<float>(options.inner),
          DropoutFactors<float>(options.outer)};
}

/// False if there are no kernels for these sizes.
inline bool feed_forward(const FeedForwardSizes& sizes, const Tensor& x, const FeedForwardWeights& weights,
                         const FeedForwardOptions& options, const FeedForwardResult& result) {
  if (result.hidden.defined() || !takes(sizes, {x, result.y})) return false;
  visit_activation(options.activation, [&]<class Act>(Act act) {
    using Rows = FeedForwardRows<Act>;
    const FeedForwardPart part = part_of(sizes, weights, options, Rows::kMostBlocks);
    launch_blocks<Rows::kThreads>(
        part.blocks, Rows::kShared,
        Rows{part, act, static_cast<float>(options.eps), x.data<bfloat16>(), result.y.data<bfloat16>(),
             pointer<float>(result.mean), pointer<float>(result.rstd)});
  });
  return true;
}

inline bool feed_forward_backward(const FeedForwardSizes& sizes, const Tensor& g, const Tensor& x,
                                  const FeedForwardResult& made, const FeedForwardWeights& weights,
                                  const FeedForwardOptions& options, const FeedForwardGradients& result) {
  if (made.hidden.defined() || !takes(sizes, {x, g, result.dx})) return false;
  bool fits = true;
  visit_activation(options.activation, [&]<class Act>(Act act) {
    using Rows = FeedForwardRowsBackward<Act>;
    fits = Rows::kShared <= platform::shared_limit();
    if (!fits) return;
    const FeedForwardPart part = part_of(sizes, weights, options, Rows::kMostBlocks);
    const Tensor parts = Tensor::empty({part.blocks, Rows::kEntries}, DType::f32, x.device());
    launch_blocks<Rows::kThreads>(part.blocks, Rows::kShared,
                                  Rows{part, act, g.data<bfloat16>(), x.data<bfloat16>(), pointer<float>(made.mean),
                                       pointer<float>(made.rstd), result.dx.data<bfloat16>(), parts.data<float>()});
    const Tensor sums = Tensor::empty(Shape{Rows::kEntries}, DType::f32, x.device());
    add_parts(part.blocks, parts, sums);
    const float* const first = sums.data<float>();
    const float* const second = first + Rows::kWeight + kHidden;
    const FeedForwardWeights& to = result.weights;
    WeightGradients{kHidden,
                    kDim,
                    part.norm,
                    part.w1,
                    first,
                    first + Rows::kWeight,
                    pointer<float>(to.w1),
                    pointer<float>(to.b1),
                    pointer<float>(to.gamma),
                    pointer<float>(to.beta)}
        .launch();
    WeightGradients{
        kDim,    kHidden, {}, part.w2, second, second + Rows::kWeight, pointer<float>(to.w2), pointer<float>(to.b2),
        nullptr, nullptr}
        .launch();
  });
  return fits;
}

}  // namespace bochner::cuda::narrow
