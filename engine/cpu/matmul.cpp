#include "engine/ops/matmul.h"

#include <algorithm>

#include "engine/cpu/parts/pack.h"
#include "engine/cpu/parts/tile_product.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

// Tiles of C, the pieces of parallel work. Their bounds depend only on the shape.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 256;
// Within a tile, A is processed kDepth columns at a time and B in panels of kPanel columns, so that both stay in L2.
constexpr int64_t kDepth = 256;
constexpr int64_t kPanel = 128;
// If there are fewer tiles than this down the rows, tiles are one panel wide.
constexpr int64_t kFewTiles = 4;
// A product with a long inner axis and few tiles is split along it; the parts are added in order.
constexpr int64_t kPartDepth = 2048;
constexpr int64_t kEnoughTiles = 16;
// The least number of multiply-adds worth a separate piece.
constexpr int64_t kPieceWork = 1 << 18;
// The same for elements to copy.
constexpr int64_t kCopiedWork = 1 << 16;

/// The offset of element (row, column) of a matrix.
TileStrides strides_of(MatrixLayout layout) {
  return layout.transposed ? TileStrides{1, layout.stride} : TileStrides{layout.stride, 1};
}

/// Each offset once, ascending: a matrix that several products share is copied once.
std::vector<int64_t> distinct(std::vector<int64_t> offsets) {
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  return offsets;
}

/// Where the copies of matrices at `offsets` begin, if those of `copied` are consecutive.
std::vector<int64_t> places(std::vector<int64_t> offsets, const std::vector<int64_t>& copied, int64_t size) {
  for (int64_t& offset : offsets)
    offset = (std::lower_bound(copied.begin(), copied.end(), offset) - copied.begin()) * size;
  return offsets;
}

/// Copies matrices (rows x columns) at `offsets`, each in strips of `width` columns, strip after strip, whose rows are
/// `to_stride` elements apart. Whole rows are read as they lie in memory: reading parts of rows would be slower.
template <class T>
void copy_strips(const std::vector<int64_t>& offsets, int64_t rows, int64_t columns, const T* from, int64_t from_stride,
                 int64_t width, int64_t strip_size, int64_t to_stride, T* to) {
  const int64_t grain = std::max<int64_t>(1, kCopiedWork / columns);
  const int64_t pieces = ceil_div(rows, grain);
  const int64_t matrix_size = ceil_div(columns, width) * strip_size;
  parallel_for(static_cast<int64_t>(offsets.size()) * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t matrix = piece / pieces;
    const int64_t first = piece % pieces * grain;
    for (int64_t i = first; i < std::min(first + grain, rows); ++i) {
      const T* const row = from + offsets[static_cast<size_t>(matrix)] + i * from_stride;
      T* strip = to + matrix * matrix_size + i * to_stride;
      for (int64_t column = 0; column < columns; column += width, strip += strip_size)
        std::copy(row + column, row + std::min(column + width, columns), strip);
    }
  });
}

/// The matrices of B as tile_product reads them, with contiguous rows. Other matrices, and those whose rows are far
/// apart, are copied in panels of kPanel columns.
template <class T>
class Right {
 public:
  Right(int64_t m, int64_t n, int64_t k, const T* b, MatrixLayout layout, const std::vector<int64_t>& offsets)
      : b_(b), stride_(layout.stride), offsets_(offsets) {
    if (!layout.transposed && (layout.stride <= kPanel || m <= 16)) return;
    const std::vector<int64_t> copied = distinct(offsets);
    const int64_t panels = ceil_div(n, kPanel);
    stride_ = padded<T>(std::min(n, kPanel));
    panel_size_ = k * stride_;
    const auto count = static_cast<int64_t>(copied.size());
    packed_ = Tensor::empty({count * panels * panel_size_}, dtype_of<T>);
    if (!layout.transposed) {
      copy_strips(copied, k, n, b, layout.stride, kPanel, panel_size_, stride_, packed_.data<T>());
    } else {
      const int64_t cuts = ceil_div(k, kDepth);
      parallel_for(count * panels * cuts, 1, [&](int64_t piece, int64_t) {
        const int64_t first = piece % cuts * kDepth;
        const int64_t column = piece / cuts % panels * kPanel;
        const T* from = b + copied[static_cast<size_t>(piece / cuts / panels)];
        T* to = packed_.data<T>() + piece / cuts * panel_size_ + first * stride_;
        copy_transposed(std::min(kPanel, n - column), std::min(kDepth, k - first),
                        from + column * layout.stride + first, layout.stride, to, stride_);
      });
    }
    offsets_ = places(offsets, copied, panels * panel_size_);
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

/// The matrices of A. If one is given as its transpose, its columns would share a few cache sets, so they are copied,
/// in strips of kTileRows rows of A.
template <class T>
class Left {
 public:
  Left(int64_t m, int64_t n, int64_t k, const T* a, MatrixLayout layout, const std::vector<int64_t>& offsets)
      : a_(a), strides_(strides_of(layout)), offsets_(offsets) {
    if (!layout.transposed || n < kPanel) return;
    const std::vector<int64_t> copied = distinct(offsets);
    const auto count = static_cast<int64_t>(copied.size());
    const int64_t strips = ceil_div(m, kTileRows);
    strides_ = {1, padded<T>(std::min(m, kTileRows))};
    strip_size_ = k * strides_.col;
    packed_ = Tensor::empty({count * strips * strip_size_}, dtype_of<T>);
    copy_strips(copied, k, m, a, layout.stride, kTileRows, strip_size_, strides_.col, packed_.data<T>());
    offsets_ = places(offsets, copied, strips * strip_size_);
    a_ = packed_.data<T>();
  }

  TileStrides strides() const { return strides_; }
  /// Element (row, column) of matrix i, where row is a multiple of kTileRows.
  const T* at(int64_t i, int64_t row, int64_t column) const {
    const T* matrix = a_ + offsets_[static_cast<size_t>(i)];
    return matrix + (packed_.defined() ? row / kTileRows * strip_size_ : row * strides_.row) + column * strides_.col;
  }

 private:
  const T* a_;
  TileStrides strides_;
  int64_t strip_size_ = 0;
  std::vector<int64_t> offsets_;
  Tensor packed_;
};

/// One tile of C, (rows x columns) from (row, column) on, with the inner axis starting at `first`: C = A B.
template <class T>
void tile(int64_t rows, int64_t columns, int64_t first, int64_t depth, const Left<T>& a, const Right<T>& b,
          int64_t matrix, int64_t row, int64_t column, T* c, int64_t ldc) {
  for (int64_t cut = 0; cut < depth; cut += kDepth) {
    const int64_t size = std::min(kDepth, depth - cut);
    for (int64_t j = 0; j < columns; j += kPanel) {
      tile_product(rows, std::min(kPanel, columns - j), size, a.at(matrix, row, first + cut), a.strides(),
                   b.at(matrix, first + cut, column + j), b.stride(), c + j, ldc, cut > 0);
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
  const int64_t depth = ceil_div(k, tiles < kEnoughTiles ? std::max<int64_t>(1, k / kPartDepth) : 1);
  const int64_t parts = std::max<int64_t>(1, ceil_div(k, std::max<int64_t>(1, depth)));  // none is empty
  const int64_t grain = std::max<int64_t>(1, kPieceWork / (std::min(m, kTileRows) * std::min(n, tile_columns) * depth));
  visit_floating(c.dtype(), "matmul", [&]<class T>(TypeTag<T>) {
    const Left<T> left(m, n, k, a.data<T>(), a_layout, a_offsets);
    const Right<T> right(m, n, k, b.data<T>(), b_layout, b_offsets);
    const Tensor partial = parts > 1 ? Tensor::empty({parts, batch * m * n}, c.dtype()) : c;
    parallel_for(tiles * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t part = piece % parts;
        const int64_t place = piece / parts;
        const int64_t i = place / (row_tiles * column_tiles);
        const int64_t row = place / column_tiles % row_tiles * kTileRows;
        const int64_t column = place % column_tiles * tile_columns;
        tile(std::min(kTileRows, m - row), std::min(tile_columns, n - column), part * depth,
             std::min(depth, k - part * depth), left, right, i, row, column,
             partial.data<T>() + part * batch * m * n + (i * m + row) * n + column, n);
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
