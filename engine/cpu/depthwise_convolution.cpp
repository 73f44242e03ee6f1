#include "engine/ops/depthwise_convolution.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/cpu/parts/lanes.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kTogether = 8;     // outputs, or taps, that share loaded numbers
constexpr int64_t kColumns = 64;     // per piece of work
constexpr int64_t kRows = 16;        // per piece of work
constexpr int64_t kTerms = 1 << 12;  // whose products are added in the type of the taps, before f64

/// Pixels [row, row + rows) x [column, column + columns), which may lie outside the image.
struct Window {
  int64_t row, rows, column, columns;
};

/// The numbers of those pixels from x on, in the type of V, and zeros outside the image.
template <class V, class S>
void copy_window(const ConvolutionSizes& sizes, const Window& window, const S* x, V* to) {
  for (int64_t r = window.row; r < window.row + window.rows; ++r) {
    const int64_t begin = r * sizes.columns;  // of the row, among the tokens
    const int64_t width = r < 0 ? 0 : std::min(sizes.columns, sizes.length - begin);
    for (int64_t c = window.column; c < window.column + window.columns; ++c) {
      *to++ = c >= 0 && c < width ? load<V>(x + (begin + c) * sizes.dim) : V{};
    }
  }
}

/// y of the pixels of `window`, which has at most kColumns columns, from the pixels around them; terms are added row by
/// row of the filter.
template <class V, class S>
void convolve(const ConvolutionSizes& sizes, const Window& window, const V* taps, const V* around, S* y) {
  const FilterSize filter = sizes.filter;
  const int64_t stride = round_up(window.columns, kTogether) + filter.width - 1;
  for (int64_t a = 0; a < window.rows; ++a) {
    for (int64_t c = 0; c < window.columns; c += kTogether) {
      std::array<V, kTogether> sums{};
      for (int64_t r = 0; r < filter.rows; ++r) {
        const V* const from = around + (a + r) * stride + c;
        for (int64_t t = 0; t < filter.width; ++t) {
          const V w = taps[r * filter.width + t];
          for (int64_t q = 0; q < kTogether; ++q) sums[static_cast<size_t>(q)] += w * from[t + q];
        }
      }
      const int64_t i = (window.row + a) * sizes.columns + window.column + c;  // the token of the first one
      const int64_t count = std::min({kTogether, window.columns - c, sizes.length - i});
      for (int64_t q = 0; q < count; ++q) store(y + (i + q) * sizes.dim, sums[static_cast<size_t>(q)]);
    }
  }
}

/// sums_q += sum_c g_(a, c) x_(a + r, c + t + q) over one row of `window`, from x of that row.
template <class V, class S>
void correlate(const ConvolutionSizes& sizes, const S* g, int64_t count, const V* x, std::array<V, kTogether>& sums) {
  for (int64_t c = 0; c < count; ++c) {
    const V by = load<V>(g + c * sizes.dim);
    for (int64_t q = 0; q < kTogether; ++q) sums[static_cast<size_t>(q)] += by * x[c + q];
  }
}

/// dw_(r, t + q) of the lanes of V, q < kTogether, of one head of one example, added to `to` (kTogether, lanes).
template <class V, class S>
void add_taps(const ConvolutionSizes& sizes, const S* x, const S* g, int64_t r, int64_t t, double* to) {
  using T = ComputeType<S>;
  constexpr auto kWidth = static_cast<int64_t>(sizeof(V) / sizeof(T));
  std::array<V, kColumns + kTogether - 1> around;
  std::array<V, kTogether> sums{};
  int64_t terms = 0;
  const auto flush = [&] {
    for (int64_t q = 0; q < kTogether; ++q) {
      std::array<T, kWidth> lanes;
      store(lanes.data(), sums[static_cast<size_t>(q)]);
      for (int64_t l = 0; l < kWidth; ++l) to[q * kWidth + l] += static_cast<double>(lanes[static_cast<size_t>(l)]);
    }
    sums = {};
    terms = 0;
  };
  for (int64_t a = 0; a * sizes.columns < sizes.length; ++a) {
    const int64_t width = std::min(sizes.columns, sizes.length - a * sizes.columns);
    for (int64_t c = 0; c < width; c += kColumns) {
      const int64_t count = std::min(kColumns, width - c);
      const Window window{a + r - sizes.filter.rows / 2, 1, c + t - sizes.filter.width / 2, count + kTogether - 1};
      copy_window(sizes, window, x, around.data());
      correlate(sizes, g + (a * sizes.columns + c) * sizes.dim, count, around.data(), sums);
      terms += count;
      if (terms >= kTerms) flush();
    }
  }
  flush();
}

}  // namespace

void depthwise_convolution(const ConvolutionSizes& sizes, bool back, const Tensor& x, const Tensor& taps,
                           const Tensor& y) {
  visit_stored(x.dtype(), "depthwise_convolution", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const FilterSize filter = sizes.filter;
    const int64_t height = ceil_div(sizes.length, sizes.columns);
    const int64_t down = ceil_div(height, kRows);
    const int64_t across = ceil_div(sizes.columns, kColumns);
    parallel_for(sizes.batch * sizes.heads * down * across, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t sequence = piece / (down * across);
        const int64_t row = piece / across % down * kRows;
        const int64_t column = piece % across * kColumns;
        const Window window{row, std::min(kRows, height - row), column, std::min(kColumns, sizes.columns - column)};
        const Window wider{row - filter.rows / 2, window.rows + filter.rows - 1, column - filter.width / 2,
                           round_up(window.columns, kTogether) + filter.width - 1};
        const T* const weights = taps.data<T>() + sequence % sizes.heads * filter.rows * filter.width * sizes.dim;
        const int64_t at = sequence * sizes.length * sizes.dim;
        for_lanes<T>(sizes.dim, [&]<class V>(TypeTag<V>, int64_t j) {
          std::vector<V> around(static_cast<size_t>(wider.rows * wider.columns));
          std::vector<V> ordered(static_cast<size_t>(filter.rows * filter.width));
          copy_window(sizes, wider, x.data<S>() + at + j, around.data());
          for (size_t n = 0; n < ordered.size(); ++n) {
            ordered[back ? ordered.size() - 1 - n : n] = load<V>(weights + static_cast<int64_t>(n) * sizes.dim + j);
          }
          convolve(sizes, window, ordered.data(), around.data(), y.data<S>() + at + j);
        });
      }
    });
  });
}

void depthwise_convolution_taps(const ConvolutionSizes& sizes, const Tensor& x, const Tensor& g, const Tensor& taps) {
  visit_stored(x.dtype(), "depthwise_convolution_taps", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const FilterSize filter = sizes.filter;
    const int64_t groups = ceil_div(filter.width, kTogether);
    parallel_for(sizes.heads * filter.rows * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t h = piece / (filter.rows * groups);
        const int64_t r = piece / groups % filter.rows;
        const int64_t t = piece % groups * kTogether;
        T* const to = taps.data<T>() + ((h * filter.rows + r) * filter.width + t) * sizes.dim;
        for_lanes<T>(sizes.dim, [&]<class V>(TypeTag<V>, int64_t j) {
          constexpr auto kWidth = static_cast<int64_t>(sizeof(V) / sizeof(T));
          std::array<double, kTogether * kWidth> sums{};
          for (int64_t b = 0; b < sizes.batch; ++b) {
            const int64_t at = (b * sizes.heads + h) * sizes.length * sizes.dim + j;
            add_taps<V>(sizes, x.data<S>() + at, g.data<S>() + at, r, t, sums.data());
          }
          for (int64_t q = 0; q < std::min(kTogether, filter.width - t); ++q) {
            for (int64_t l = 0; l < kWidth; ++l) {
              to[q * sizes.dim + j + l] = static_cast<T>(sums[static_cast<size_t>(q * kWidth + l)]);
            }
          }
        });
      }
    });
  });
}

}  // namespace bochner::cpu
