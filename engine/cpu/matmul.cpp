#include "engine/cpu/matmul.h"

#include <algorithm>

#include "engine/cpu/blas.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

// Tiles of C, each one single-threaded product. Their bounds follow from the shape alone.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 512;
// A product with a long inner axis and few tiles is cut along it; the parts are added in order.
constexpr int64_t kTileDepth = 2048;
constexpr int64_t kEnoughTiles = 16;

template <class T>
const T* at(const T* base, MatrixLayout layout, int64_t row, int64_t column) {
  return layout.transposed ? base + column * layout.stride + row : base + row * layout.stride + column;
}

}  // namespace

void matmul(int64_t m, int64_t n, int64_t k, const Tensor& a, MatrixLayout a_layout,
            const std::vector<int64_t>& a_offsets, const Tensor& b, MatrixLayout b_layout,
            const std::vector<int64_t>& b_offsets, const Tensor& c) {
  const auto batch = static_cast<int64_t>(a_offsets.size());
  const int64_t row_tiles = (m + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (n + kTileColumns - 1) / kTileColumns;
  const int64_t tiles = batch * row_tiles * column_tiles;
  const int64_t parts = tiles < kEnoughTiles ? std::max<int64_t>(1, k / kTileDepth) : 1;
  const int64_t depth = (k + parts - 1) / parts;
  visit_floating(c.dtype(), "matmul", [&]<class T>(TypeTag<T>) {
    const Tensor partial = parts > 1 ? Tensor::empty({parts, batch * m * n}, c.dtype()) : c;
    parallel_for(tiles * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t part = piece % parts;
        const int64_t tile = piece / parts;
        const int64_t i = tile / (row_tiles * column_tiles);
        const int64_t row = tile / column_tiles % row_tiles * kTileRows;
        const int64_t column = tile % column_tiles * kTileColumns;
        const int64_t first = part * depth;
        T* to = partial.data<T>() + part * batch * m * n + (i * m + row) * n + column;
        gemm(a_layout.transposed, b_layout.transposed, std::min(kTileRows, m - row), std::min(kTileColumns, n - column),
             std::min(depth, k - first), T(1),
             at(a.data<T>() + a_offsets[static_cast<size_t>(i)], a_layout, row, first), a_layout.stride,
             at(b.data<T>() + b_offsets[static_cast<size_t>(i)], b_layout, first, column), b_layout.stride, T(0), to,
             n);
      }
    });
    if (parts == 1) return;
    parallel_for(batch * m * n, 16384, [&](int64_t begin, int64_t end) {
      T* to = c.data<T>();
      const T* from = partial.data<T>();
      for (int64_t j = begin; j < end; ++j) to[j] = from[j];
      for (int64_t part = 1; part < parts; ++part) {
        from += batch * m * n;
        for (int64_t j = begin; j < end; ++j) to[j] += from[j];
      }
    });
  });
}

}  // namespace bochner::cpu
