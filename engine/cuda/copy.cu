#include "engine/ops/copy.h"

#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/runtime/runtime.h"
#include "engine/step_graph.h"

namespace bochner::cuda {
namespace {

template <class To, class From>
struct Convert {
  BOCHNER_DEVICE To operator()(From value) const { return converted<To>(value); }
};

struct CountUp {
  int64_t* to;
  BOCHNER_DEVICE void operator()(int64_t i) const { to[i] = i; }
};

template <class T>
struct Constant {
  T value;
  BOCHNER_DEVICE T operator()() const { return value; }
};

/// Moves a tile of a matrix whose transpose is contiguous through shared memory, so that both sides are read and
/// written along memory. Blocks: the tiles of each of `batch` matrices, to (rows, columns) = from (columns, rows)^T.
template <class T>
struct Transpose {
  static constexpr int kTile = 32;
  int64_t rows, columns, row_tiles, column_tiles;
  int64_t to_step, from_step;      ///< from one matrix to the next
  int64_t to_stride, from_stride;  ///< from one row of `to`, or of `from`, to the next
  T* to;
  const T* from;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    T* tile = team.template shared<T>();
    const int64_t matrix = team.index() / (row_tiles * column_tiles);
    const int64_t row = team.index() / column_tiles % row_tiles * kTile;
    const int64_t column = team.index() % column_tiles * kTile;
    const T* source = from + matrix * from_step;
    T* target = to + matrix * to_step;
    for (int i = team.rank(); i < kTile * kTile; i += team.size()) {
      const int r = i % kTile;
      const int c = i / kTile;
      if (row + r < rows && column + c < columns) {
        tile[c * (kTile + 1) + r] = source[(column + c) * from_stride + row + r];
      }
    }
    team.sync();
    for (int i = team.rank(); i < kTile * kTile; i += team.size()) {
      const int c = i % kTile;
      const int r = i / kTile;
      if (row + r < rows && column + c < columns) {
        target[(row + r) * to_stride + column + c] = tile[c * (kTile + 1) + r];
      }
    }
  }
};

/// A copy between layouts whose innermost axes are transposed, with at most one axis around them.
template <class T>
bool transposed(const Loop& loop) {
  constexpr int64_t kLeast = 8;
  if (loop.rank != 2 && loop.rank != 3) return false;
  const auto r = static_cast<size_t>(loop.rank - 2);
  const auto c = r + 1;
  if (loop.strides[0][c] != 1 || loop.strides[1][r] != 1 || loop.sizes[r] < kLeast || loop.sizes[c] < kLeast) {
    return false;
  }
  const int64_t batch = loop.rank == 3 ? loop.sizes[0] : 1;
  constexpr int64_t kTile = Transpose<T>::kTile;
  const int64_t row_tiles = ceil_div(loop.sizes[r], kTile);
  const int64_t column_tiles = ceil_div(loop.sizes[c], kTile);
  launch_blocks<256>(batch * row_tiles * column_tiles, kTile * (kTile + 1) * sizeof(T),
                     Transpose<T>{loop.sizes[r], loop.sizes[c], row_tiles, column_tiles,
                                  loop.rank == 3 ? loop.strides[0][0] : 0, loop.rank == 3 ? loop.strides[1][0] : 0,
                                  loop.strides[0][r], loop.strides[1][c], loop.at<T>(0), loop.at<T>(1)});
  return true;
}

/// 16 bytes.
struct alignas(16) Wide {
  uint64_t at[2];
};

/// The same copy in elements of 16 bytes, if the innermost axis of both sides consists of whole ones; otherwise of rank
/// 0.
template <class T>
Loop widened(Loop loop) {
  constexpr int64_t kEach = sizeof(Wide) / sizeof(T);
  const auto innermost = static_cast<size_t>(loop.rank - 1);
  bool whole = loop.sizes[innermost] % kEach == 0;
  for (size_t i = 0; i < 2; ++i) {
    whole = whole && loop.strides[i][innermost] == 1 && reinterpret_cast<uintptr_t>(loop.data[i]) % sizeof(Wide) == 0;
    for (size_t axis = 0; axis < innermost; ++axis) {
      whole = whole && loop.strides[i][axis] % kEach == 0;
      loop.strides[i][axis] /= kEach;
    }
  }
  loop.sizes[innermost] /= kEach;
  loop.size /= kEach;
  if (!whole) loop.rank = 0;
  return loop;
}

template <class T>
void move(const Loop& loop) {
  if (is_linear<2>(loop)) {
    platform::copy(loop.data[1], loop.data[0], static_cast<size_t>(loop.size) * sizeof(T));
  } else if (const Loop wide = widened<T>(loop); wide.rank > 0) {
    elementwise1<Wide, Wide>(wide, Convert<Wide, Wide>{});
  } else if (!transposed<T>(loop)) {
    elementwise1<T, T>(loop, Convert<T, T>{});
  }
}

}  // namespace

void copy(const Loop& loop, DType to, DType from) {
  if (loop.size == 0) return;
  if (to != from) {
    visit_all(to, [&]<class To>(TypeTag<To>) {
      visit_all(from, [&]<class From>(TypeTag<From>) {
        if constexpr (!std::is_same_v<To, From>) elementwise1<To, From>(loop, Convert<To, From>{});
      });
    });
    return;
  }
  switch (size_of(to)) {  // elements are only moved
    case 1:
      return move<uint8_t>(loop);
    case 2:
      return move<uint16_t>(loop);
    case 4:
      return move<uint32_t>(loop);
    default:
      return move<uint64_t>(loop);
  }
}

void fill(const Loop& loop, DType to, double value) {
  if (loop.size == 0) return;
  visit_all(to, [&]<class T>(TypeTag<T>) { elementwise0<T>(loop, Constant<T>{converted<T>(value)}); });
}

void count_up(int64_t* to, int64_t count) { launch_threads(count, CountUp{to}); }

void copy_between_devices(const Tensor& from, const Tensor& to) {
  // Only bytes are transferred: elements are converted and made contiguous on the side of `from`, then distributed.
  const Tensor source = from.cast(to.dtype()).contiguous();
  const Tensor target = to.is_contiguous() ? to : Tensor::empty_like(to);
  const size_t bytes = static_cast<size_t>(source.size()) * size_of(source.dtype());
  if (from.device().is_cpu()) {
    StepGraph::object("brings values from the host");
    begin(to.device().index);
    platform::upload(source.raw(), target.raw(), bytes);
    end("copy");
  } else if (to.device().is_cpu()) {
    StepGraph::object("has the host read values");
    begin(from.device().index);
    platform::download(source.raw(), target.raw(), bytes);
    synchronize(from.device().index);  // reports faults
  } else {
    StepGraph::object("copies from card to card");
    platform::copy_peer(source.raw(), from.device().index, target.raw(), to.device().index, bytes);
  }
  if (!to.is_contiguous()) to.copy_(target);
}

}  // namespace bochner::cuda
