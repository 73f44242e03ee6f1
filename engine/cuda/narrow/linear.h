// The linear layer of engine/ops/linear.h for bf16 inputs 64 wide, as one kernel forward and one backward
// (narrow/rows.h).
#pragma once

#include "engine/cuda/narrow/rows.h"
#include "engine/ops/linear.h"

namespace bochner::cuda::narrow {

constexpr int kChunk = 32;  ///< columns of the output that a warp processes at once

/// For O outputs. A block has 8 warps of 16 rows.
template <int O>
struct LinearRows {
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kResident = 2;
  static constexpr size_t kShared = sizeof(float) * (O + 2 * kDim) + sizeof(bfloat16) * O * kStride;
  static constexpr int64_t kMostBlocks = 264;

  int64_t rows, blocks;
  Norm norm;
  float eps;
  const bfloat16 *x, *residual;
  const float *w, *b;
  bool drops;
  DropoutFactors<float> drop;
  bfloat16* y;
  float *mean, *rstd;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    float* const bias = team.template shared<float>();
    float* const gamma = bias + O;
    float* const beta = gamma + kDim;
    auto* const weights = reinterpret_cast<bfloat16*>(beta + kDim);
    load_numbers<O, kThreads>(team, b, bias);
    load_numbers<kDim, kThreads>(team, norm.gamma, gamma, 1);
    load_numbers<kDim, kThreads>(team, norm.beta, beta);
    load_weights<O, kDim, kThreads>(team, w, weights);
    team.sync();
    const uint64_t from = drops ? drop.place.now() : 0;
    for (int64_t tile = team.index(); tile * 16 * kWarps < rows; tile += blocks) {
      for (int s = 0; s < kWarpShare<kWarps>; ++s) {
        const int64_t first = 16 * (tile * kWarps + warp_of(team, s));
        if (first < rows) strip(first, from, bias, gamma, beta, weights);
      }
    }
  }

  BOCHNER_DEVICE void strip(int64_t first, uint64_t from, const float* bias, const float* gamma, const float* beta,
                            const bfloat16* weights) const {
    const auto n = Left<kUnits / 2>::of(normed_rows(x, first, rows, norm, eps, gamma, beta, mean, rstd));
#pragma unroll 2
    for (int c = 0; c < O; c += kChunk) {
      Sum<kChunk / 8> out;
      out.clear();
      multiply_rows(out, n, weights + c * kStride, kStride);
      finish_rows(out, bias + c, drops, drop, from, first * O + c, O, residual == nullptr ? nullptr : residual + c,
                  first, rows);
      store_rows(out, y + c, O, first, rows);
    }
  }
};

/// The gradients; a block adds up those of the weights over its rows. It has 4 warps of 16 rows.
template <int O>
struct LinearRowsBackward {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRows = 16 * kWarps;
  static constexpr int kResident = 2;
  static constexpr int kShare = O / 16 / kWarps;  ///< units of 16 outputs per warp
  static constexpr int kOutStride = O + kGap;
  static constexpr size_t kShared =
      sizeof(float) * kDim + sizeof(bfloat16) * (O * kStride + kRows * kStride + kRows * kOutStride);
  static constexpr int64_t kEntries = O * kDim + O;
  static constexpr int64_t kMostBlocks = 264;

  int64_t rows, blocks;
  Norm norm;
  const bfloat16 *g, *x;
  const float *w, *mean, *rstd;
  bool drops;
  DropoutFactors<float> drop;
  bfloat16* dx;  ///< may be null
  float* parts;  ///< (blocks, kEntries): D (O x 64), then b (O)

  struct Own {
    Sum<kUnits> weights[kShare];
    Sum<2> bias[kShare];
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    float* const gamma = team.template shared<float>();
    auto* const weights = reinterpret_cast<bfloat16*>(gamma + kDim);
    bfloat16* const inputs = weights + O * kStride;
    bfloat16* const outputs = inputs + kRows * kStride;
    load_numbers<kDim, kThreads>(team, norm.gamma, gamma, 1);
    load_weights<O, kDim, kThreads>(team, w, weights);
    Own own[kWarpShare<kWarps>];
    for (Own& each : own) {
#pragma unroll
      for (int u = 0; u < kShare; ++u) {
        each.weights[u].clear();
        each.bias[u].clear();
      }
    }
    const uint64_t from = drops ? drop.place.now() : 0;
    for (int64_t tile = team.index(); tile * kRows < rows; tile += blocks) {
      team.sync();  // the weights are loaded, and the last tile has been read
      for (int s = 0; s < kWarpShare<kWarps>; ++s) {
        const int place = 16 * warp_of(team, s);
        strip(tile * kRows + place, from, gamma, weights, inputs + place * kStride, outputs + place * kOutStride);
      }
      team.sync();
      for (int s = 0; s < kWarpShare<kWarps>; ++s) {
        const bfloat16* const left = outputs + 16 * warp_of(team, s);
        add_outer<kRows>(own[s].weights, left, kOutStride, kWarps, inputs, kStride);
#pragma unroll
        for (int u = 0; u < kShare; ++u) add_columns<kRows>(own[s].bias[u], left + 16 * kWarps * u, kOutStride);
      }
    }
    float* const to = parts + team.index() * kEntries;
    for (int s = 0; s < kWarpShare<kWarps>; ++s) {
#pragma unroll
      for (int u = 0; u < kShare; ++u) {
        const int output = 16 * (warp_of(team, s) + kWarps * u);
        keep_sums(own[s].weights[u], to + output * kDim, kDim);
        keep_columns(own[s].bias[u], to + O * kDim + output);
      }
    }
  }

  BOCHNER_DEVICE void strip(int64_t first, uint64_t from, const float* gamma, const bfloat16* weights, bfloat16* inputs,
                            bfloat16* outputs) const {
    Sum<kUnits> xhat = widened(load_left<kUnits / 2>(x, kDim, first, rows));
    RowValues scale = RowValues::filled(1);
    if (norm.any()) {
      scale = row_values(rstd, first, rows);
      centre(xhat, row_values(mean, first, rows), scale);
    }
    put_rows(xhat, inputs, kStride);
    join_lanes();
    Sum<kUnits> dn;
    dn.clear();
#pragma unroll
    for (int c = 0; c < O; c += kChunk) {
      Sum<kChunk / 8> e = gradient_rows<kChunk / 8>(g + c, O, first, rows, drops, drop, from, first * O + c);
      put_rows(e, outputs + c, kOutStride);
      if (dx != nullptr) multiply_columns(dn, Left<kChunk / 16>::of(e), weights + c * kStride, kStride);
    }
    if (dx == nullptr) return;
    if (norm.any()) norm_gradient(dn, widened(read_left<kUnits / 2>(inputs, kStride)), scale, gamma);
    store_rows(dn, dx, kDim, first, rows);
  }
};

/// f(the number of outputs, as a type); false if there are no kernels for it.
template <class F>
bool visit_outputs(int64_t outputs, const F& f) {
  switch (outputs) {
    case 64:
      f(std::integral_constant<int, 64>{});
      return true;
    case 128:
      f(std::integral_constant<int, 128>{});
      return true;
    case 192:
      f(std::integral_constant<int, 192>{});
      return true;
    default:
      return false;
  }
}

inline bool takes(const LinearSizes& sizes, const LinearSpec& spec, std::initializer_list<Tensor> tensors) {
  return is_narrow(sizes.inputs, tensors) && !spec.relu;
}

/// False if there are no kernels for these sizes.
inline bool linear(const LinearSizes& sizes, const Tensor& x, const LinearWeights& weights, const Tensor& residual,
                   const LinearSpec& spec, const LinearResult& result) {
  if (!takes(sizes, spec, {x, residual, result.y})) return false;
  return visit_outputs(sizes.outputs, [&]<int O>(std::integral_constant<int, O>) {
    using Rows = LinearRows<O>;
    const int64_t blocks = std::min(Rows::kMostBlocks, ceil_div(sizes.rows, 16 * Rows::kWarps));
    launch_blocks<Rows::kThreads>(
        blocks, Rows::kShared,
        Rows{sizes.rows, blocks, norm_of(weights.gamma, weights.beta), static_cast<float>(spec.eps), x.data<bfloat16>(),
             pointer<bfloat16>(residual), weights.w.data<float>(), weights.b.data<float>(), spec.drop.active(),
             DropoutFactors<float>(spec.drop), result.y.data<bfloat16>(), pointer<float>(result.mean),
             pointer<float>(result.rstd)});
  });
}

inline bool linear_backward(const LinearSizes& sizes, const Tensor& g, const Tensor& x, const LinearResult& made,
                            const LinearWeights& weights, const LinearSpec& spec, const LinearGradients& result) {
  if (!takes(sizes, spec, {x, g, result.dx})) return false;
  return visit_outputs(sizes.outputs, [&]<int O>(std::integral_constant<int, O>) {
    using Rows = LinearRowsBackward<O>;
    const int64_t blocks = std::min(Rows::kMostBlocks, ceil_div(sizes.rows, Rows::kRows));
    const Tensor parts = Tensor::empty({blocks, Rows::kEntries}, DType::f32, x.device());
    const Norm norm = norm_of(weights.gamma, weights.beta);
    launch_blocks<Rows::kThreads>(
        blocks, Rows::kShared,
        Rows{sizes.rows, blocks, norm, g.data<bfloat16>(), x.data<bfloat16>(), weights.w.data<float>(),
             pointer<float>(made.mean), pointer<float>(made.rstd), spec.drop.active(), DropoutFactors<float>(spec.drop),
             pointer<bfloat16>(result.dx), parts.data<float>()});
    const Tensor sums = Tensor::empty(Shape{Rows::kEntries}, DType::f32, x.device());
    add_parts(blocks, parts, sums);
    WeightGradients{O,
                    kDim,
                    norm,
                    weights.w.data<float>(),
                    sums.data<float>(),
                    sums.data<float>() + O * kDim,
                    pointer<float>(result.weights.w),
                    pointer<float>(result.weights.b),
                    pointer<float>(result.weights.gamma),
                    pointer<float>(result.weights.beta)}
        .launch();
  });
}

}  // namespace bochner::cuda::narrow
