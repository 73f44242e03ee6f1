#include "engine/cpu/parts/tile_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/cpu/parts/vector.h"
#include "engine/math.h"
#include "engine/sanitizer.h"

namespace bochner::cpu {
namespace {

/// Vectors of C per row of a block, and rows for that number of vectors, so that C, a row of B and one value of A fit
/// into the registers.
constexpr int kMaxVectors = kVectorRegisters == 32 ? 4 : 2;
constexpr int max_rows(int vectors) {
  if (kAddressSanitizer) return 5;  // two groups of rows; with its checks, all sizes take a minute to compile
  constexpr std::array<int, 4> wide{12, 14, 8, 6};
  constexpr std::array<int, 4> narrow{8, 6, 4, 3};
  return (kVectorRegisters == 32 ? wide : narrow)[static_cast<size_t>(vectors - 1)];
}

/// The depth of the products of attention tiles, whose C is in a near cache.
constexpr int64_t kTileDepth = 64;

/// The size in bytes of the part of B in use: two thirds of an L1 cache of 48 KiB, or all of one of 32 KiB, where L2 is
/// as fast.
constexpr int64_t kPanelBytes = 32768;

/// One block of C: R rows of V vectors of W elements, of which the last begins at column `last` <= (V - 1) W. If B is
/// `far`, the data `ahead` elements after each of its rows is prefetched into the L2 cache.
template <class T, int W, int R, int V, bool far>
void block(int64_t depth, const T* a, TileStrides a_strides, const T* b, int64_t ldb, T* c, int64_t ldc, int64_t last,
           bool accumulate, int64_t ahead) {
  using Vec = Vector<T, W>;
  // One pointer serves four rows, since instructions can address base + 0, 1, 2 and 3 strides.
  constexpr int kGroups = ceil_div(R, 4);
  const T* group[kGroups];
  for (int i = 0; i < kGroups; ++i) group[i] = a + 4 * i * a_strides.row;
  if (accumulate && depth > kTileDepth) {  // part of a large product: prefetch C, which is in no near cache
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) __builtin_prefetch(c + i * ldc + (j + 1 < V ? j * W : last), 1);
    }
  }
  Vec sum[R][V] = {};
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k) {
    if constexpr (far) __builtin_prefetch(b + ahead, 0, 2);
    Vec row[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) row[j] = load<Vec>(b + (j + 1 < V ? j * W : last));
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i) {
      const T value = group[i / 4][(i % 4) * a_strides.row];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] += value * row[j];
    }
    for (int i = 0; i < kGroups; ++i) group[i] += a_strides.col;
    b += ldb;
  }
#pragma GCC unroll 14
  for (int i = 0; i < R; ++i) {
    T* to = c + i * ldc;
    if (accumulate) {
      // All loads come before all stores: the last two vectors may overlap.
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] += load<Vec>(to + (j + 1 < V ? j * W : last));
    }
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(to + (j + 1 < V ? j * W : last), sum[i][j]);
  }
}

template <class T>
using Block = void (*)(int64_t, const T*, TileStrides, const T*, int64_t, T*, int64_t, int64_t, bool, int64_t);

/// The blocks of V vectors with 1, 2, ..., max_rows(V) rows.
template <class T, int W, int V, bool far>
constexpr auto blocks_of = []<int... R>(std::integer_sequence<int, R...>) {
  return std::array<Block<T>, sizeof...(R)>{&block<T, W, R + 1, V, far>...};
}
(std::make_integer_sequence<int, max_rows(V)>{});

/// A strip of C: all rows, V vectors wide. Each of the first blocks prefetches one vector of the next rows of B.
template <class T, int W, int V>
void strip(int64_t rows, int64_t depth, const T* a, TileStrides a_strides, const T* b, int64_t ldb, T* c, int64_t ldc,
           int64_t last, bool accumulate, int64_t ahead) {
  const int64_t count = ceil_div(rows, max_rows(V));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = rows * i / count;
    const int64_t size = rows * (i + 1) / count - begin;
    const auto& blocks =
        W == kLanes<T> && ahead > 0 && i < V ? blocks_of<T, W, V, W == kLanes<T>> : blocks_of<T, W, V, false>;
    blocks[static_cast<size_t>(size - 1)](depth, a + begin * a_strides.row, a_strides, b, ldb, c + begin * ldc, ldc,
                                          last, accumulate, ahead + i * W);
  }
}

/// C in strips of vectors of W elements, cols >= W; fewer columns use narrower vectors. A strip has at most `Most`
/// vectors.
template <class T, int W, int Most = kMaxVectors>
void product(int64_t rows, int64_t cols, int64_t depth, const T* a, TileStrides a_strides, const T* b, int64_t ldb,
             T* c, int64_t ldc, bool accumulate, int64_t ahead) {
  if constexpr (W > 1) {
    if (cols < W) {
      constexpr int kNarrower = W * sizeof(T) > 16 ? W / 2 : 1;
      constexpr int kMost = std::min(kMaxVectors, (W - 2) / kNarrower + 1);  // for at most W - 1 columns
      product<T, kNarrower, kMost>(rows, cols, depth, a, a_strides, b, ldb, c, ldc, accumulate, ahead);
      return;
    }
  }
  const int64_t vectors = ceil_div(cols, W);
  const int64_t strips = ceil_div(vectors, Most);
  for (int64_t s = 0; s < strips; ++s) {
    // The widest strip comes last: only it may contain an overlap, which needs two vectors.
    const int64_t first = vectors * s / strips;
    const int64_t end = vectors * (s + 1) / strips;
    const int64_t last = std::min(end * W, cols) - W - first * W;
    const auto run = [&]<int V>(std::integral_constant<int, V>) {
      if constexpr (V <= Most)
        strip<T, W, V>(rows, depth, a, a_strides, b + first * W, ldb, c + first * W, ldc, last, accumulate, ahead);
    };
    switch (end - first) {
      case 1:
        run(std::integral_constant<int, 1>{});
        break;
      case 2:
        run(std::integral_constant<int, 2>{});
        break;
      case 3:
        run(std::integral_constant<int, 3>{});
        break;
      default:
        run(std::integral_constant<int, 4>{});
    }
  }
}

}  // namespace

template <class T>
void tile_product(int64_t rows, int64_t cols, int64_t depth, const T* a, TileStrides a_strides, const T* b, int64_t ldb,
                  T* c, int64_t ldc, bool accumulate) {
  if (rows <= 0 || cols <= 0) return;
  const int64_t panel_cols = std::min<int64_t>(cols, kMaxVectors * kLanes<T>);
  const int64_t longest = std::max<int64_t>(64, kPanelBytes / static_cast<int64_t>(sizeof(T)) / panel_cols);
  const int64_t parts = std::max<int64_t>(1, ceil_div(depth, longest));
  // With several panels, A B may be in no near cache, and the next panel is below this one.
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = depth * i / parts;
    const int64_t size = depth * (i + 1) / parts - begin;
    product<T, kLanes<T>>(rows, cols, size, a + begin * a_strides.col, a_strides, b + begin * ldb, ldb, c, ldc,
                          accumulate || i > 0, parts > 1 ? size * ldb : 0);
  }
}

template void tile_product(int64_t, int64_t, int64_t, const float*, TileStrides, const float*, int64_t, float*, int64_t,
                           bool);
template void tile_product(int64_t, int64_t, int64_t, const double*, TileStrides, const double*, int64_t, double*,
                           int64_t, bool);

}  // namespace bochner::cpu
