// H_n is the product of log2 n stages in any order, one per bit h of the index: (x_i, x_(i+h)) -> (x_i + x_(i+h),
// x_i - x_(i+h)).
//
// Stages with h below the width of a vector are shuffles within a register; four more are computed among sixteen
// registers before anything is stored. So a row of 256 floats is read and written once, and a longer one once more for
// each factor of 16, in the nearest cache.
#include "engine/ops/hadamard.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/cpu/parts/butterflies.h"
#include "engine/cpu/parts/vector.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

template <class T>
inline constexpr int kWidth = 64 / sizeof(T);
template <class T>
using Wide = Vector<T, kWidth<T>>;

/// One stage within a vector: lane l becomes x[l] + x[l + h], or x[l - h] - x[l] where l has the bit h.
template <int h, class V, size_t... lane>
V stage(V x, std::index_sequence<lane...>) {
  const V partner = __builtin_shufflevector(x, x, static_cast<int>(lane ^ h)...);
  constexpr V sign{((lane & h) != 0 ? -1 : 1)...};
  return x * sign + partner;
}

/// The stages h = 1, 2, ..., size / 2 within a vector.
template <class T, int size, int h = 1>
Wide<T> stages(Wide<T> x) {
  if constexpr (h < size) {
    return stages<T, size, 2 * h>(stage<h>(x, std::make_index_sequence<kWidth<T>>{}));
  } else {
    return x;
  }
}

/// Stages 1 ... radix * lanes / 2 of `count` consecutive blocks of radix vectors.
template <class T, int radix>
void near_stages(const T* from, T* to, int64_t count) {
  using V = Wide<T>;
  for (int64_t block = 0; block < count; ++block, from += radix * kWidth<T>, to += radix * kWidth<T>) {
    V x[radix];
#pragma GCC unroll 16
    for (int i = 0; i < radix; ++i) x[i] = stages<T, kWidth<T>>(load<V>(from + i * kWidth<T>));
    butterflies(x);
#pragma GCC unroll 16
    for (int i = 0; i < radix; ++i) store(to + i * kWidth<T>, x[i]);
  }
}

/// Stages stride ... stride * radix / 2 of columns [begin, end) of a radix x stride matrix; whole vectors.
template <class T, int radix>
void far_stages(T* data, int64_t stride, int64_t begin, int64_t end) {
  using V = Wide<T>;
  for (int64_t column = begin; column < end; column += kWidth<T>) {
    V x[radix];
#pragma GCC unroll 16
    for (int i = 0; i < radix; ++i) x[i] = load<V>(data + i * stride + column);
    butterflies(x);
#pragma GCC unroll 16
    for (int i = 0; i < radix; ++i) store(data + i * stride + column, x[i]);
  }
}

/// f(integral constant of the radix), for a power of two from 1 to 16.
template <class F>
void with_radix(int64_t radix, const F& f) {
  switch (radix) {
    case 1:
      return f(std::integral_constant<int, 1>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    case 4:
      return f(std::integral_constant<int, 4>{});
    case 8:
      return f(std::integral_constant<int, 8>{});
    default:
      return f(std::integral_constant<int, 16>{});
  }
}

/// The number of stages from `stride` on that are computed together. Vectors 4 KiB apart compete for one set of the
/// nearest cache, which holds at least 8 of them.
template <class T>
int64_t far_radix(int64_t n, int64_t stride) {
  const int64_t most = stride * static_cast<int64_t>(sizeof(T)) < 4096 ? 16 : 8;
  return std::min(most, n / stride);
}

/// Consecutive rows of at least one vector each.
template <class T>
void transform_rows(const T* from, T* to, int64_t n, int64_t rows) {
  const int64_t near_radix = std::min<int64_t>(16, n / kWidth<T>);
  const int64_t near = near_radix * kWidth<T>;
  if (near == n) {
    with_radix(near_radix, [&](auto radix) { near_stages<T, radix>(from, to, rows); });
    return;
  }
  for (int64_t row = 0; row < rows; ++row, from += n, to += n) {
    near_stages<T, 16>(from, to, n / near);
    for (int64_t stride = near; stride < n;) {
      const int64_t far = far_radix<T>(n, stride);
      with_radix(far, [&](auto radix) {
        for (int64_t base = 0; base < n; base += stride * far) far_stages<T, radix>(to + base, stride, 0, stride);
      });
      stride *= far;
    }
  }
}

/// Rows shorter than a vector: the contiguous elements are read as vectors that hold several rows.
template <class T, int n>
void transform_short_rows(const T* from, T* to, int64_t count) {
  using V = Wide<T>;
  const int64_t vectors = count / kWidth<T>;
  for (int64_t i = 0; i < vectors; ++i) store(to + i * kWidth<T>, stages<T, n>(load<V>(from + i * kWidth<T>)));
  const int64_t done = vectors * kWidth<T>;
  T rest[kWidth<T>] = {};
  std::copy(from + done, from + count, rest);
  store(rest, stages<T, n>(load<V>(rest)));
  std::copy(rest, rest + (count - done), to + done);
}

constexpr int64_t kPiece = 16384;        // elements of a piece of parallel work
constexpr int64_t kTileBytes = 1 << 19;  // of a row that one thread transforms by itself, in its own cache

template <class T>
void transform(int64_t rows, int64_t n, const T* from, T* to) {
  if (n < kWidth<T>) {
    parallel_for(rows, kPiece / n, [&](int64_t begin, int64_t end) {
      with_radix(n, [&](auto size) {
        if constexpr (size < kWidth<T>)
          transform_short_rows<T, size>(from + begin * n, to + begin * n, (end - begin) * n);
      });
    });
    return;
  }
  const int64_t tile = std::min(n, kTileBytes / static_cast<int64_t>(sizeof(T)));
  parallel_for(rows * (n / tile), std::max<int64_t>(1, kPiece / tile), [&](int64_t begin, int64_t end) {
    transform_rows(from + begin * tile, to + begin * tile, tile, end - begin);
  });
  for (int64_t stride = tile; stride < n;) {
    const int64_t far = far_radix<T>(n, stride);
    const int64_t strip = kPiece / far;
    parallel_for(rows * (n / (stride * far)) * (stride / strip), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* matrix = to + i / (stride / strip) * stride * far;
        const int64_t column = i % (stride / strip) * strip;
        with_radix(far, [&](auto radix) { far_stages<T, radix>(matrix, stride, column, column + strip); });
      }
    });
    stride *= far;
  }
}

}  // namespace

void hadamard(int64_t rows, int64_t n, const Tensor& from, const Tensor& to) {
  visit_floating(from.dtype(), "hadamard",
                 [&]<class T>(TypeTag<T>) { transform(rows, n, from.data<T>(), to.data<T>()); });
}

}  // namespace bochner::cpu
