#include "engine/ops/matmul.h"

#include <algorithm>

#include "engine/cpu/parts/block_rows.h"
#include "engine/cpu/parts/pack.h"
#include "engine/cpu/parts/tile_product.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

// Tiles of C, the pieces of parallel work. Their bounds follow from the shape alone.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 256;
// Within a tile, A is taken kDepth columns at a time and B in panels of kPanel columns, so that both stay in L2. A
// transposed A is copied, since its columns would share a few sets of the cache.
constexpr int64_t kDepth = 256;
constexpr int64_t kPanel = 128;
// With fewer tiles than these down the rows, tiles are one panel wide.
constexpr int64_t kFewTiles = 4;
// A product with a long inner axis and few tiles is cut along it; the parts are added in order.
constexpr int64_t kPartDepth = 2048;
constexpr int64_t kEnoughTiles = 16;
// The fewest multiply-adds that are worth a piece of their own.
constexpr int64_t kPieceWork = 1 << 18;

/// The offset of element (row, column) of a matrix.
TileStrides strides_of(MatrixLayout layout) {
  return layout.transposed ? TileStrides{1, layout.stride} : TileStrides{layout.stride, 1};
}

/// The matrices of B as tile_product reads them, with contiguous rows. Other matrices, and those whose rows lie far
/// apart, are copied in panels of kPanel columns; a matrix that several products share is copied once.
template <class T>
class Right {
 public:
  Right(int64_t m, int64_t n, int64_t k, const T* b, MatrixLayout layout, const std::vector<int64_t>& offsets)
      : b_(b), stride_(layout.stride), offsets_(offsets) {
    if (!layout.transposed && (layout.stride <= kPanel || m <= 16)) return;
    std::vector<int64_t> distinct = offsets;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    const int64_t panels = ceil_div(n, kPanel);
    stride_ = padded<T>(std::min(n, kPanel));
    panel_size_ = k * stride_;
    const auto count = static_cast<int64_t>(distinct.size());
    packed_ = Tensor::empty({count * panels * panel_size_}, dtype_of<T>);
    const int64_t cuts = ceil_div(k, kDepth);
    parallel_for(count * panels * cuts, 1, [&](int64_t piece, int64_t) {
      const int64_t first = piece % cuts * kDepth;
      const int64_t depth = std::min(kDepth, k - first);
      const int64_t column = piece / cuts % panels * kPanel;
      const int64_t width = std::min(kPanel, n - column);
      const T* from = b + distinct[static_cast<size_t>(piece / cuts / panels)];
      T* to = packed_.data<T>() + piece / cuts * panel_size_ + first * stride_;
      if (layout.transposed) {
        copy_transposed(width, depth, from + column * layout.stride + first, layout.stride, to, stride_);
      } else {
        copy_rows(depth, width, from + first * layout.stride + column, layout.stride, to, stride_);
      }
    });
    for (int64_t& offset : offsets_) {
      const auto place = std::lower_bound(distinct.begin(), distinct.end(), offset) - distinct.begin();
      offset = place * panels * panel_size_;
    }
    b_ = packed_.data<T>();
  }

  int64_t stride() const { return stride_; }
  /// Element (row, column) of matrix i, where column is a multiple of kPanel.
  const T* at(int64_t i, int64_t row, int64_t column) const {
    const T* matrix = b_ + offsets_[static_cast<size_t>(i)];
    return packed_.defined() ? matrix + column / kPanel * panel_size_ + row * stride_ : matrix + row * stride_ + column;
  }

 private:
  const T* b_;
  int64_t stride_, panel_size_ = 0;
  std::vector<int64_t> offsets_;
  Tensor packed_;
};

/// One tile of C, (rows x columns) with the inner axis from `first` on: C = A B.
template <class T>
void tile(int64_t rows, int64_t columns, int64_t first, int64_t depth, const T* a, TileStrides a_strides,
          const Right<T>& b, int64_t matrix, int64_t column, T* c, int64_t ldc, T* copy_of_a) {
  constexpr int64_t kStride = padded<T>(kTileRows);
  for (int64_t cut = 0; cut < depth; cut += kDepth) {
    const int64_t size = std::min(kDepth, depth - cut);
    const T* left = a + (first + cut) * a_strides.col;
    TileStrides strides = a_strides;
    if (a_strides.col != 1 && columns >= kPanel) {
      copy_rows(size, rows, left, a_strides.col, copy_of_a, kStride);
      left = copy_of_a;
      strides = {1, kStride};
    }
    for (int64_t j = 0; j < columns; j += kPanel) {
      tile_product(rows, std::min(kPanel, columns - j), size, left, strides, b.at(matrix, first + cut, column + j),
                   b.stride(), c + j, ldc, cut > 0);
    }
  }
}

}  // namespace

void matmul(int64_t m, int64_t n, int64_t k, const Tensor& a, MatrixLayout a_layout,
            const std::vector<int64_t>& a_offsets, const Tensor& b, MatrixLayout b_layout,
            const std::vector<int64_t>& b_offsets, const Tensor& c) {
  const auto batch = static_cast<int64_t>(a_offsets.size());
  const int64_t row_tiles = ceil_div(m, kTileRows);
  const int64_t tile_columns = batch * row_tiles < kFewTiles ? kPanel : kTileColumns;
  const int64_t column_tiles = ceil_div(n, tile_columns);
  const int64_t tiles = batch * row_tiles * column_tiles;
  const int64_t parts = tiles < kEnoughTiles ? std::max<int64_t>(1, k / kPartDepth) : 1;
  const int64_t depth = ceil_div(k, parts);
  const int64_t grain = std::max<int64_t>(1, kPieceWork / (std::min(m, kTileRows) * std::min(n, tile_columns) * depth));
  visit_floating(c.dtype(), "matmul", [&]<class T>(TypeTag<T>) {
    const Right<T> right(m, n, k, b.data<T>(), b_layout, b_offsets);
    const Tensor partial = parts > 1 ? Tensor::empty({parts, batch * m * n}, c.dtype()) : c;
    parallel_for(tiles * parts, grain, [&](int64_t begin, int64_t end) {
      const int64_t copied = a_layout.transposed && n >= kPanel ? kDepth * padded<T>(kTileRows) : 0;
      Scratch<T> scratch({copied});
      T* const copy_of_a = scratch.take(copied);
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t part = piece % parts;
        const int64_t place = piece / parts;
        const int64_t i = place / (row_tiles * column_tiles);
        const int64_t row = place / column_tiles % row_tiles * kTileRows;
        const int64_t column = place % column_tiles * tile_columns;
        const TileStrides strides = strides_of(a_layout);
        tile(std::min(kTileRows, m - row), std::min(tile_columns, n - column), part * depth,
             std::min(depth, k - part * depth), a.data<T>() + a_offsets[static_cast<size_t>(i)] + row * strides.row,
             strides, right, i, column, partial.data<T>() + part * batch * m * n + (i * m + row) * n + column, n,
             copy_of_a);
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
