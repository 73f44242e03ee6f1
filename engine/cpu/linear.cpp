#include "engine/ops/linear.h"

#include "engine/bf16.h"
#include "engine/cpu/parts/block_rows.h"
#include "engine/cpu/parts/matmul.h"
#include "engine/cpu/parts/norm_rows.h"
#include "engine/cpu/parts/packed_weights.h"

namespace bochner::cpu {
namespace {

int64_t tile_rows(const LinearSizes& sizes) {
  return sizes.inputs > 512 ? 128 : sizes.inputs > 128 && sizes.rows > 4096 ? 96 : 64;
}

/// body(chunk, first output, width): a tile computes this many outputs at once.
template <class Body>
void for_each_chunk(int64_t outputs, const Body& body) {
  for (int64_t first = 0; first < outputs; first += kWeightChunk)
    body(first / kWeightChunk, first, std::min(kWeightChunk, outputs - first));
}

/// The rows of x, or of its norm, as products read them.
template <class S>
struct InputRows {
  using T = ComputeType<S>;
  int64_t inputs;
  const S* x;
  const T *gamma = nullptr, *beta = nullptr;
  int64_t stride;  ///< of the copies

  InputRows(const LinearSizes& sizes, const Tensor& from, const LinearWeights& weights)
      : inputs(sizes.inputs), x(from.data<S>()), stride(padded<T>(sizes.inputs)) {
    if (!weights.gamma.defined()) return;
    gamma = weights.gamma.data<T>();
    beta = weights.beta.data<T>();
  }

  bool normed() const { return gamma != nullptr; }
  void copy(int64_t row, int64_t rows, const T* mean, const T* rstd, T* to) const {
    if (normed()) {
      normalise_rows(x + row * inputs, rows, inputs, mean + row, rstd + row, gamma, beta, to, stride);
    } else {
      for (int64_t r = 0; r < rows; ++r) move_row(inputs, x + (row + r) * inputs, to + r * stride);
    }
  }
};

template <class S>
void forward(const LinearSizes& sizes, const Tensor& x, const LinearWeights& weights, const Tensor& residual,
             const LinearSpec& spec, const LinearResult& result) {
  using T = ComputeType<S>;
  constexpr bool kInPlace = std::is_same_v<S, T>;  // whether sums are computed in the memory of y
  const InputRows<S> input(sizes, x, weights);
  const PackedWeights<S> w(weights.w, sizes.inputs, sizes.outputs, {1, sizes.inputs}, Cut::columns);  // W^T
  const T* const b = weights.b.data<T>();
  const S* const base = residual.defined() ? residual.data<S>() : nullptr;
  T* const mean = input.normed() ? result.mean.data<T>() : nullptr;
  T* const rstd = input.normed() ? result.rstd.data<T>() : nullptr;
  S* const y = result.y.data<S>();
  const int64_t tile = tile_rows(sizes);
  // In small layers, a piece has several tiles, to make up for the cost of its scratch memory.
  const int64_t tiles = std::max<int64_t>(1, 16384 / (sizes.inputs * sizes.outputs));
  parallel_for(sizes.rows, tiles * tile, [&](int64_t begin, int64_t end) {
    const int64_t copied = input.normed() ? tile * input.stride : 0;
    const int64_t summed = kInPlace ? 0 : tile * sizes.outputs;
    Scratch<T> scratch({copied, summed});
    T* const n = scratch.take(copied);
    T* const sums = scratch.take(summed);
    const Factor<S> factor_of_x(tile, sizes.inputs);
    DropoutWindow<T> window(spec.drop);
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t rows = std::min(tile, end - row);
      const S* const from = input.x + row * sizes.inputs;
      Left<S> left;
      if (input.normed()) {
        row_moments(from, rows, sizes.inputs, static_cast<T>(spec.eps), mean + row, rstd + row);
        input.copy(row, rows, mean, rstd, n);
        left = factor_of_x.left(rows, sizes.inputs, n, {input.stride, 1});
      } else {
        left = factor_of_x.left(rows, sizes.inputs, from, {sizes.inputs, 1});
      }
      T* to = sums;
      if constexpr (kInPlace) to = y + row * sizes.outputs;
      const auto finish = [=, &spec](int64_t r, int64_t first, int64_t width, const auto& factor) {
        T* const s = to + r * sizes.outputs + first;
        const T* const shift = b + first;
        if (spec.relu) {
          for (int64_t j = 0; j < width; ++j) s[j] = math::relu(s[j] + shift[j]) * factor(j);
        } else if (base == nullptr) {
          for (int64_t j = 0; j < width; ++j) s[j] = (s[j] + shift[j]) * factor(j);
        } else {
          const S* const kept = base + (row + r) * sizes.outputs + first;
          for (int64_t j = 0; j < width; ++j) s[j] = static_cast<T>(kept[j]) + (s[j] + shift[j]) * factor(j);
        }
        move_row(width, s, y + (row + r) * sizes.outputs + first);
      };
      for_each_chunk(sizes.outputs, [&](int64_t c, int64_t first, int64_t width) {
        multiply<S>(rows, width, sizes.inputs, left, w.chunk(c), to + first, sizes.outputs);
        if (spec.drop.active()) return;
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t at = r * sizes.outputs + first;
          S* const last = y + row * sizes.outputs + at;
          if (spec.relu) {
            finish(r, first, width, [](int64_t) { return T(1); });
          } else {
            finish_row(width, to + at, b + first, base == nullptr ? nullptr : base + row * sizes.outputs + at, last);
          }
        }
      });
      if (spec.drop.active())  // whole rows share one draw of random words
        for_each_masked_run(spec.drop, window, row * sizes.outputs, rows, sizes.outputs, finish);
    }
  });
}

/// The rows of e, the gradient after going back through activation and bias.
template <class S>
struct Slopes {
  using T = ComputeType<S>;
  int64_t outputs;
  const S *g, *y;  ///< y: null without relu
  T scale;         ///< of dropout

  Slopes(const LinearSizes& sizes, const Tensor& gradient, const LinearResult& made, const LinearSpec& spec)
      : outputs(sizes.outputs),
        g(gradient.data<S>()),
        y(spec.relu ? made.y.data<S>() : nullptr),
        scale(spec.drop.active() ? static_cast<T>(spec.drop.scale()) : T(1)) {}

  /// Whether e differs from g.
  bool changes(const Dropout& drop) const { return y != nullptr || drop.active(); }
  void copy(int64_t row, int64_t rows, const Dropout& drop, DropoutWindow<T>& window, T* to, int64_t stride) const {
    if (y != nullptr) {
      for (int64_t r = 0; r < rows; ++r, to += stride) {
        const S* const from = g + (row + r) * outputs;
        const S* const value = y + (row + r) * outputs;
        for (int64_t j = 0; j < outputs; ++j) {
          const T slope = static_cast<T>(from[j]) * scale;  // always computed: without a branch the loop vectorises
          to[j] = static_cast<T>(value[j]) > T(0) ? slope : T(0);
        }
      }
      return;
    }
    for_each_masked_run(drop, window, row * outputs, rows, outputs,
                        [=, this](int64_t r, int64_t first, int64_t width, const auto& factor) {
                          const S* from = g + (row + r) * outputs + first;
                          T* e = to + r * stride + first;
                          for (int64_t j = 0; j < width; ++j) e[j] = static_cast<T>(from[j]) * factor(j);
                        });
  }
};

/// The position of each gradient in the sums of a piece of rows, which begin with dW if it is needed, and their total
/// size.
struct SumLayout {
  int64_t b, gamma, beta, size;

  SumLayout(const LinearSizes& sizes, bool with_w)
      : b(with_w ? sizes.outputs * sizes.inputs : 0),
        gamma(b + sizes.outputs),
        beta(gamma + sizes.inputs),
        size(beta + sizes.inputs) {}
};

/// The number of rows that share one set of sums in backward.
template <class S>
int64_t rows_per_sum(const LinearSizes& sizes, bool with_w) {
  return std::max<int64_t>(256, rows_per_gradient<S>(sizes.rows, SumLayout(sizes, with_w).size, tile_rows(sizes)));
}

/// Without norm, no row of x has to be recomputed, and three plain sums suffice: db = 1^T e, dW = e^T x and dx = e W.
/// They read e and x twice, but need no dW per piece of rows: this is better if clearing and adding those would move
/// more bytes.
template <class T>
bool is_plain(const LinearSizes& sizes, const LinearWeights& weights, bool with_w) {
  if (weights.gamma.defined() || !with_w) return !weights.gamma.defined();
  const int64_t grain = rows_per_sum<T>(sizes, with_w);
  const int64_t sums = ceil_div(sizes.rows, grain);
  return 2 * sums * sizes.outputs * sizes.inputs > sizes.rows * (sizes.outputs + sizes.inputs);
}

template <class T>
void plain_backward(const LinearSizes& sizes, const Tensor& gradient, const Tensor& x, const LinearResult& made,
                    const LinearWeights& weights, const LinearSpec& spec, const LinearGradients& result) {
  const int64_t rows = sizes.rows;
  const Slopes<T> slopes(sizes, gradient, made, spec);
  const bool copies = slopes.changes(spec.drop);
  const Tensor g = copies ? Tensor::empty({rows, sizes.outputs}, dtype_of<T>) : gradient;
  if (copies || result.weights.b.defined()) {
    const Tensor total = sum_gradients<T>(rows, rows_per_gradient<T>(rows, sizes.outputs, 1), sizes.outputs,
                                          [&](int64_t begin, int64_t end, T* sums) {
                                            T* const e = g.data<T>() + begin * sizes.outputs;
                                            DropoutWindow<T> window(spec.drop);
                                            if (copies)
                                              slopes.copy(begin, end - begin, spec.drop, window, e, sizes.outputs);
                                            add_rows(end - begin, sizes.outputs, e, sizes.outputs, sums);
                                          });
    hand_out<T>(total, 0, result.weights.b);
  }
  if (result.weights.w.defined())
    matmul(sizes.outputs, sizes.inputs, rows, g, {true, sizes.outputs}, {0}, x, {false, sizes.inputs}, {0},
           result.weights.w);
  if (result.dx.defined())
    matmul(rows, sizes.inputs, sizes.outputs, g, {false, sizes.outputs}, {0}, weights.w, {false, sizes.inputs}, {0},
           result.dx);
}

template <class S>
void backward(const LinearSizes& sizes, const Tensor& g, const Tensor& x, const LinearResult& made,
              const LinearWeights& weights, const LinearSpec& spec, const LinearGradients& result) {
  using T = ComputeType<S>;
  constexpr bool kInPlace = std::is_same_v<S, T>;
  const InputRows<S> input(sizes, x, weights);
  const Slopes<S> slopes(sizes, g, made, spec);
  const int64_t e_stride = padded<T>(sizes.outputs);
  const PackedWeights<S> w(weights.w, sizes.outputs, sizes.inputs, {sizes.inputs, 1}, Cut::depth);  // W
  const T* const mean = input.normed() ? made.mean.data<T>() : nullptr;
  const T* const rstd = input.normed() ? made.rstd.data<T>() : nullptr;
  S* const dx = result.dx.defined() ? result.dx.data<S>() : nullptr;
  const bool with_w = result.weights.w.defined();
  const SumLayout at(sizes, with_w);
  const int64_t tile = tile_rows(sizes);
  const int64_t grain = rows_per_sum<S>(sizes, with_w);
  const int64_t most = std::min(kWeightChunk, sizes.outputs);
  const Tensor total = sum_gradients<T>(sizes.rows, grain, at.size, [&](int64_t begin, int64_t end, T* sums) {
    Scratch<T> scratch({tile * input.stride, tile * e_stride, tile * sizes.inputs});
    T* const n = scratch.take(tile * input.stride);
    T* const e = scratch.take(tile * e_stride);
    T* const dn = scratch.take(tile * sizes.inputs);
    const Factor<S> factor_of_n(sizes.inputs, tile);
    const Factor<S> factor_of_e(std::max(most, tile), std::max(most, tile));
    DropoutWindow<T> window(spec.drop);
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t rows = std::min(tile, end - row);
      Right<S> right;
      if (!input.normed() && reads_in_place<S>(sizes.inputs)) {
        right = factor_of_n.right(rows, sizes.inputs, input.x + row * sizes.inputs, {sizes.inputs, 1});
      } else {
        input.copy(row, rows, mean, rstd, n);
        right = factor_of_n.right(rows, sizes.inputs, n, {input.stride, 1});
      }
      T* flow = dn;
      if constexpr (kInPlace) {
        if (!input.normed()) flow = dx == nullptr ? nullptr : dx + row * sizes.inputs;
      }
      const auto multiply_by = [&](const auto* from, int64_t stride) {
        add_rows(rows, sizes.outputs, from, stride, sums + at.b);
        for_each_chunk(sizes.outputs, [&](int64_t c, int64_t first, int64_t width) {
          if (with_w)
            multiply<S>(width, sizes.inputs, rows, factor_of_e.left(width, rows, from + first, {1, stride}), right,
                        sums + first * sizes.inputs, sizes.inputs, true);  // dW += e^T n
          if (dx == nullptr) return;
          multiply<S>(rows, sizes.inputs, width, factor_of_e.left(rows, width, from + first, {stride, 1}), w.chunk(c),
                      flow, sizes.inputs, c > 0);  // dn += e W
        });
      };
      if (!slopes.changes(spec.drop) && reads_in_place<S>(sizes.outputs)) {
        multiply_by(slopes.g + row * sizes.outputs, sizes.outputs);
      } else {
        slopes.copy(row, rows, spec.drop, window, e, e_stride);
        multiply_by(static_cast<const T*>(e), e_stride);
      }
      if (input.normed()) {
        normalise_rows_backward(dn, input.x + row * sizes.inputs, rows, sizes.inputs, mean + row, rstd + row,
                                input.gamma, static_cast<const S*>(nullptr), dx + row * sizes.inputs, sums + at.gamma,
                                sums + at.beta);
      } else if (dx != nullptr) {
        move_row(rows * sizes.inputs, flow, dx + row * sizes.inputs);
      }
    }
  });
  hand_out<T>(total, 0, result.weights.w);
  hand_out<T>(total, at.b, result.weights.b);
  hand_out<T>(total, at.gamma, result.weights.gamma);
  hand_out<T>(total, at.beta, result.weights.beta);
}

}  // namespace

void linear(const LinearSizes& sizes, const Tensor& x, const LinearWeights& weights, const Tensor& residual,
            const LinearSpec& spec, const LinearResult& result) {
  visit_stored(x.dtype(), "linear",
               [&]<class S>(TypeTag<S>) { forward<S>(sizes, x, weights, residual, spec, result); });
}

void linear_backward(const LinearSizes& sizes, const Tensor& g, const Tensor& x, const LinearResult& made,
                     const LinearWeights& weights, const LinearSpec& spec, const LinearGradients& result) {
  visit_stored(x.dtype(), "linear", [&]<class S>(TypeTag<S>) {
    if constexpr (!std::is_same_v<S, bfloat16>) {
      if (is_plain<S>(sizes, weights, result.weights.w.defined()))
        return plain_backward<S>(sizes, g, x, made, weights, spec, result);
    }
    backward<S>(sizes, g, x, made, weights, spec, result);
  });
}

}  // namespace bochner::cpu
