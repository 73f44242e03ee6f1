// Common to the fused layers with an input 64 wide, in bf16, on tensor cores: a warp has 16 rows, and the weights stay
// in shared memory. Products with so few columns are as fast as memory; a composition of them reads and writes every
// intermediate result, which takes several times as long.
//
// With xhat = (x - mean) rstd, or x without norm, n = xhat gamma + beta is multiplied by W, and e is the gradient of
// that product. A block adds up D = e^T xhat and b = sum e over its rows; then, over all rows,
//
//   dW = D gamma + b beta^T,   dgamma_j = sum_o W_oj D_oj,   dbeta = b W
//
// so sums over rows are all products of tiles, and those of the norm are free.
#pragma once

#include <algorithm>

#include "engine/cuda/parts/column_sum.h"
#include "engine/cuda/parts/packed.h"
#include "engine/cuda/parts/philox.h"
#include "engine/cuda/parts/warp_matrix.h"

namespace bochner::cuda::narrow {

constexpr int kDim = 64;  ///< of the input
constexpr int kUnits = kDim / 8;
constexpr int kStride = kDim + kGap;

struct Norm {
  const float *gamma, *beta;  ///< null without norm
  BOCHNER_HD bool any() const { return gamma != nullptr; }
};

#if defined(__CUDACC__)

/// Numbers first ... first + 15; numbers from `length` on repeat the last one.
__device__ inline RowValues row_values(const float* x, int64_t first, int64_t length) {
  const int64_t row = first + static_cast<int>(threadIdx.x) % 32 / 4;
  return {{x[row < length ? row : length - 1], x[row + 8 < length ? row + 8 : length - 1]}};
}

/// The transpose of a 16 x 16 tile in shared memory.
__device__ inline Left<1> read_transposed(const bfloat16* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Left<1> result;
  load_blocks<true>(result.v[0], tile + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8);
  return result;
}

__device__ inline Left<1> ones() {
  const uint32_t one = packed(1, 1);
  return {{{one, one, one, one}}};
}

/// The four lanes that share rows give each other word k of lane i for word i of lane k.
__device__ inline void transpose_words(uint32_t (&v)[4]) {
  const auto exchange = [](uint32_t& a, uint32_t& b, int step) {
    const bool upper = (threadIdx.x & step) != 0;
    const uint32_t received = __shfl_xor_sync(0xFFFFFFFFU, upper ? a : b, step);
    (upper ? a : b) = received;
  };
  exchange(v[0], v[1], 1);
  exchange(v[2], v[3], 1);
  exchange(v[0], v[2], 2);
  exchange(v[1], v[3], 2);
}

/// The factors for 16 rows, `columns` apart; element (0, 0) has number `first`, a multiple of 8, and the stream is at
/// `from`. A lane draws the words of 8 columns, which four lanes need.
template <int N>
__device__ Sum<N> dropout_factors(const DropoutFactors<float>& drop, uint64_t from, int64_t first, int64_t columns) {
  static_assert(N % 4 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Sum<N> result;
#pragma unroll
  for (int n = 0; n < N; n += 4) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t element = first + (lane / 4 + 8 * h) * columns + 8 * (n + lane % 4);
      uint32_t words[4];
      drop.words(from, element, words);
      transpose_words(words);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        result.v[n + k][2 * h] = drop.of_half(words[k] & 0xFFFFU);
        result.v[n + k][2 * h + 1] = drop.of_half(words[k] >> 16);
      }
    }
  }
  return result;
}

#else

inline RowValues row_values(const float* x, int64_t first, int64_t length) {
  RowValues result{};
  for (int64_t i = 0; i < 16; ++i) result.v[i] = x[first + i < length ? first + i : length - 1];
  return result;
}
inline Left<1> read_transposed(const bfloat16* tile, int stride) {
  Left<1> result;
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) result.v[row][k] = static_cast<float>(tile[k * stride + row]);
  }
  return result;
}
inline Left<1> ones() {
  Left<1> result;
  for (auto& row : result.v) std::fill(std::begin(row), std::end(row), 1.0f);
  return result;
}
template <int N>
Sum<N> dropout_factors(const DropoutFactors<float>& drop, uint64_t from, int64_t first, int64_t columns) {
  Sum<N> result;
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < N; ++n) {
      uint32_t words[4];
      drop.words(from, first + row * columns + 8 * n, words);
      for (int i = 0; i < 8; ++i) result.v[row][8 * n + i] = drop.of_half(words[i / 2] >> (i % 2 * 16) & 0xFFFFU);
    }
  }
  return result;
}

#endif

/// Rows first ... of x (rows x 8 N, `stride` apart), as far as they are below `rows`.
template <int N>
BOCHNER_DEVICE void store_rows(Sum<N>& x, bfloat16* to, int64_t stride, int64_t first, int64_t rows) {
  if (first + 16 <= rows) return write_rows(x, to + first * stride, stride);
  x.each([&](int row, int column, float value) {
    if (first + row < rows) to[(first + row) * stride + column] = bfloat16(value);
  });
}

/// Loads the weights (rows x columns), rounded, into shared memory.
template <int rows, int columns, int threads, class Team>
BOCHNER_DEVICE void load_weights(const Team& team, const float* from, bfloat16* to) {
  spread<rows * columns / 2, threads>(team, [&](int i) {
    store_pair(to + 2 * i / columns * (columns + kGap) + 2 * i % columns, from[2 * i], from[2 * i + 1]);
  });
}
template <int count, int threads, class Team>
BOCHNER_DEVICE void load_numbers(const Team& team, const float* from, float* to, float otherwise = 0) {
  spread<count, threads>(team, [&](int i) { to[i] = from == nullptr ? otherwise : from[i]; });
}

/// Turns x into xhat, with the given statistics of its rows.
BOCHNER_DEVICE inline void centre(Sum<kUnits>& x, RowValues mean, RowValues rstd) {
  x.zip([&](Place at, float& value) { value = (value - mean.at(at)) * rstd.at(at); });
}
/// Computes the statistics.
BOCHNER_DEVICE inline void measure(Sum<kUnits>& x, float eps, RowValues& mean, RowValues& rstd) {
  constexpr float kShare = 1.0f / kDim;
  const RowValues total = x.rows(Plus{});
  mean = RowValues::of(total, total, [](float sum, float) { return sum * kShare; });
  Sum<kUnits> squares = x;
  squares.zip([&](Place at, float& value) { value = (value - mean.at(at)) * (value - mean.at(at)); });
  const RowValues spread_of = squares.rows(Plus{});
  rstd = RowValues::of(spread_of, spread_of, [&](float sum, float) { return 1.0f / math::sqrt(sum * kShare + eps); });
}
/// n from xhat.
BOCHNER_DEVICE inline Sum<kUnits> scaled(Sum<kUnits> xhat, const float* gamma, const float* beta) {
  xhat.each([&](int, int column, float& value) { value = value * gamma[column] + beta[column]; });
  return xhat;
}

/// Turns dn into LayerNorm'(dn).
BOCHNER_DEVICE inline void norm_gradient(Sum<kUnits>& dn, Sum<kUnits> xhat, RowValues rstd, const float* gamma) {
  constexpr float kShare = 1.0f / kDim;
  dn.each([&](int, int column, float& value) { value *= gamma[column]; });
  Sum<kUnits> along = dn;
  along.with(xhat, [](float& value, float normed) { value *= normed; });
  RowValues level = dn.rows(Plus{});
  RowValues slope = along.rows(Plus{});
  const auto through = [&](Place at, float& value, float normed) {
    value = (value - (level.at(at) + normed * slope.at(at)) * kShare) * rstd.at(at);
  };
  dn.zip(through, xhat);
}

/// n for 16 rows of x, before it is rounded; with a norm, also writes their statistics.
BOCHNER_DEVICE inline Sum<kUnits> normed_rows(const bfloat16* x, int64_t first, int64_t rows, const Norm& norm,
                                              float eps, const float* gamma, const float* beta, float* mean,
                                              float* rstd) {
  Sum<kUnits> xhat = widened(load_left<kUnits / 2>(x, kDim, first, rows));
  if (!norm.any()) return xhat;
  RowValues level;
  RowValues scale;
  measure(xhat, eps, level, scale);
  centre(xhat, level, scale);
  const auto keep = [&](RowValues& values, float* to) {
    values.each([&](int row, float value) {
      if (RowValues::first() && first + row < rows) to[first + row] = value;
    });
  };
  keep(level, mean);
  keep(scale, rstd);
  return scaled(xhat, gamma, beta);
}

/// y = dropout(product + bias) + residual, for 8 N columns of 16 rows of an output `stride` wide; element (0, 0) has
/// number `element`. The residual may be null.
template <int N>
BOCHNER_DEVICE void finish_rows(Sum<N>& y, const float* bias, bool drops, const DropoutFactors<float>& drop,
                                uint64_t from, int64_t element, int64_t stride, const bfloat16* residual, int64_t first,
                                int64_t rows) {
  y.each([&](int, int column, float& value) { value += bias[column]; });
  if (drops) {
    y.with(dropout_factors<N>(drop, from, element, stride), [](float& value, float factor) { value *= factor; });
  }
  if (residual != nullptr) {
    y.with(widened(load_left<N / 2>(residual, stride, first, rows)), [](float& value, float add) { value += add; });
  }
}

/// 16 rows, 0 where they do not exist.
template <int N>
BOCHNER_DEVICE Sum<N> stored_rows(const bfloat16* from, int64_t stride, int64_t first, int64_t rows) {
  Sum<N> x = widened(load_left<N / 2>(from, stride, first, rows));
  if (first + 16 > rows) {
    x.each([&](int row, int, float& value) { value = first + row < rows ? value : 0; });
  }
  return x;
}
/// Their dropout, as in finish_rows().
template <int N>
BOCHNER_DEVICE Sum<N> gradient_rows(const bfloat16* g, int64_t stride, int64_t first, int64_t rows, bool drops,
                                    const DropoutFactors<float>& drop, uint64_t from, int64_t element) {
  Sum<N> e = stored_rows<N>(g, stride, first, rows);
  if (drops) {
    e.with(dropout_factors<N>(drop, from, element, stride), [](float& value, float factor) { value *= factor; });
  }
  return e;
}

/// c_r (16 x 8 N) += left_r^T right over `rows` rows of two tiles; left_r is 16 columns wide, 16 * step columns after
/// the previous one.
template <int rows, int R, int N>
BOCHNER_DEVICE void add_outer(Sum<N> (&c)[R], const bfloat16* left, int left_stride, int step, const bfloat16* right,
                              int right_stride) {
  for (int k = 0; k < rows; k += 16) {
    Left<1> a[R];
#pragma unroll
    for (int r = 0; r < R; ++r) a[r] = read_transposed(left + k * left_stride + 16 * step * r, left_stride);
    multiply_columns(c, a, right + k * right_stride, right_stride);
  }
}
/// c (any row) += the sums of 16 columns of a tile.
template <int rows>
BOCHNER_DEVICE void add_columns(Sum<2>& c, const bfloat16* tile, int stride) {
  const Left<1> one = ones();
  for (int k = 0; k < rows; k += 16) multiply_columns(c, one, tile + k * stride, stride);
}
template <int N>
BOCHNER_DEVICE void keep_sums(Sum<N>& c, float* to, int stride) {
  c.each([&](int row, int column, float value) { to[row * stride + column] = value; });
}
BOCHNER_DEVICE inline void keep_columns(Sum<2>& c, float* to) {
  c.each([&](int row, int column, float value) {
    if (row == 0) to[column] = value;
  });
}

/// The gradients of a product's weights from sums = [D (outputs x inputs), b (outputs)], as above; one warp per row of
/// W and, with a norm, per column. Null pointers are not written.
struct WeightGradients {
  int outputs, inputs;
  Norm norm;
  const float *w, *D, *b;
  float *dw, *db, *dgamma, *dbeta;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto index = static_cast<int>(team.index());
    if (index < outputs) {
      for (int j = team.rank(); dw != nullptr && j < inputs; j += team.size()) {
        const float sum = D[index * inputs + j];
        dw[index * inputs + j] = norm.any() ? sum * norm.gamma[j] + b[index] * norm.beta[j] : sum;
      }
      if (db != nullptr && team.rank() == 0) db[index] = b[index];
      return;
    }
    const int column = index - outputs;
    float scale = 0;
    float shift = 0;
    for (int o = team.rank(); o < outputs; o += team.size()) {
      const float weight = round_to_bf16(w[o * inputs + column]);
      scale += weight * D[o * inputs + column];
      shift += weight * b[o];
    }
    scale = team.sum(scale);
    shift = team.sum(shift);
    if (team.rank() != 0) return;
    dgamma[column] = scale;
    dbeta[column] = shift;
  }
  void launch() const { launch_warps(outputs + (norm.any() ? inputs : 0), *this); }
};

/// sums[i] = the sum of parts (blocks x entries) over the blocks.
inline void add_parts(int64_t blocks, const Tensor& parts, const Tensor& sums) {
  launch_blocks<kStrip * kPieceGroups>(
      ceil_div(sums.size(), kStrip), kStrip * kPieceGroups * sizeof(float),
      AddPieces<1, float>{blocks, sums.size(), parts.data<float>(), {sums.data<float>()}});
}

/// Whether these are activations that the kernels can read; some may be undefined.
inline bool is_narrow(int64_t inputs, std::initializer_list<Tensor> tensors) {
  if (inputs != kDim || !platform::has_bf16()) return false;
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& x) {
    return !x.defined() || (x.dtype() == DType::bf16 && reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0);
  });
}

template <class T>
T* pointer(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}
inline Norm norm_of(const Tensor& gamma, const Tensor& beta) { return {pointer<float>(gamma), pointer<float>(beta)}; }

}  // namespace bochner::cuda::narrow
