#include "engine/ops/depthwise_convolution.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/cpu/parts/lanes.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kRows = 8;         // outputs, or taps, that share what is loaded
constexpr int64_t kBlock = 64;       // rows of a piece of work
constexpr int64_t kTerms = 1 << 12;  // rows whose products are added in the type of the taps, before f64

/// y_i = sum_t w_t x_(i + t - half) for kRows rows from `first` on, of the columns of V from j on. Terms are added in
/// the order of t.
template <class V, class S, class T>
void convolve(const ConvolutionSizes& sizes, const T* taps, const S* x, int64_t first, int64_t j, S* y) {
  const int64_t rows = std::min(kRows, sizes.length - first);
  const int64_t start = first - sizes.width / 2;  // row of x that the first tap of the first output reads
  std::array<V, kRows> sums{};
  const int64_t end = std::min(sizes.width + kRows - 1, sizes.length - start);
  for (int64_t s = std::max<int64_t>(0, -start); s < end; ++s) {
    const V from = load<V>(x + (start + s) * sizes.dim + j);
    if (s >= kRows - 1 && s < sizes.width) {
      for (int64_t q = 0; q < kRows; ++q) sums[static_cast<size_t>(q)] += taps[s - q] * from;
    } else {
      for (int64_t q = 0; q < kRows; ++q) {
        if (s >= q && s - q < sizes.width) sums[static_cast<size_t>(q)] += taps[s - q] * from;
      }
    }
  }
  for (int64_t q = 0; q < rows; ++q) store(y + (first + q) * sizes.dim + j, sums[static_cast<size_t>(q)]);
}

/// sums_q += sum_i g_i x_(i + t + q - half) over rows i of [begin, end) and columns of V from j on, for kRows taps.
template <class V, class S>
void correlate(const ConvolutionSizes& sizes, const S* x, const S* g, int64_t begin, int64_t end, int64_t t, int64_t j,
               std::array<V, kRows>& sums) {
  const int64_t shift = t - sizes.width / 2;
  for (int64_t i = begin; i < end; ++i) {
    const V by = load<V>(g + i * sizes.dim + j);
    const S* const from = x + (i + shift) * sizes.dim + j;
    if (i + shift >= 0 && i + shift + kRows <= sizes.length) {
      for (int64_t q = 0; q < kRows; ++q) sums[static_cast<size_t>(q)] += by * load<V>(from + q * sizes.dim);
    } else {
      for (int64_t q = std::max<int64_t>(0, -(i + shift)); q < std::min(kRows, sizes.length - i - shift); ++q) {
        sums[static_cast<size_t>(q)] += by * load<V>(from + q * sizes.dim);
      }
    }
  }
}

/// dw_(t + q) of one head of one example, q < kRows, added to `to`.
template <class S>
void add_taps(const ConvolutionSizes& sizes, const S* x, const S* g, int64_t t, double* to) {
  using T = ComputeType<S>;
  for (int64_t begin = 0; begin < sizes.length; begin += kTerms) {
    const int64_t end = std::min(sizes.length, begin + kTerms);
    const auto add = [&]<class V>(TypeTag<V>, int64_t j) {
      std::array<V, kRows> sums{};
      correlate<V>(sizes, x, g, begin, end, t, j, sums);
      for (int64_t q = 0; q < std::min(kRows, sizes.width - t); ++q) {
        if constexpr (std::is_same_v<V, T>) {
          to[q] += static_cast<double>(sums[static_cast<size_t>(q)]);
        } else {
          to[q] += static_cast<double>(sum_of<T>(sums[static_cast<size_t>(q)]));
        }
      }
    };
    for_lanes<T>(sizes.dim, add);
  }
}

}  // namespace

void depthwise_convolution(const ConvolutionSizes& sizes, bool back, const Tensor& x, const Tensor& taps,
                           const Tensor& y) {
  visit_stored(x.dtype(), "depthwise_convolution", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    std::vector<T> ordered(taps.data<T>(), taps.data<T>() + taps.size());  // back: with reversed taps
    if (back) {
      for (int64_t h = 0; h < sizes.heads; ++h) {
        std::reverse(ordered.begin() + h * sizes.width, ordered.begin() + (h + 1) * sizes.width);
      }
    }
    const int64_t blocks = ceil_div(sizes.length, kBlock);
    parallel_for(sizes.batch * sizes.heads * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t sequence = piece / blocks;
        const int64_t first = piece % blocks * kBlock;
        const int64_t last = std::min(sizes.length, first + kBlock);
        const T* const weights = ordered.data() + sequence % sizes.heads * sizes.width;
        const int64_t at = sequence * sizes.length * sizes.dim;
        for (int64_t i = first; i < last; i += kRows) {
          for_lanes<T>(sizes.dim, [&]<class V>(TypeTag<V>, int64_t j) {
            convolve<V>(sizes, weights, x.data<S>() + at, i, j, y.data<S>() + at);
          });
        }
      }
    });
  });
}

void depthwise_convolution_taps(const ConvolutionSizes& sizes, const Tensor& x, const Tensor& g, const Tensor& taps) {
  visit_stored(x.dtype(), "depthwise_convolution_taps", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const int64_t groups = ceil_div(sizes.width, kRows);
    parallel_for(sizes.heads * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t h = piece / groups;
        const int64_t t = piece % groups * kRows;
        std::array<double, kRows> sums{};
        for (int64_t b = 0; b < sizes.batch; ++b) {
          const int64_t at = (b * sizes.heads + h) * sizes.length * sizes.dim;
          add_taps(sizes, x.data<S>() + at, g.data<S>() + at, t, sums.data());
        }
        for (int64_t q = 0; q < std::min(kRows, sizes.width - t); ++q) {
          taps.data<T>()[h * sizes.width + t + q] = static_cast<T>(sums[static_cast<size_t>(q)]);
        }
      }
    });
  });
}

}  // namespace bochner::cpu
