#include "engine/ops/scan.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kStrip = 64;     // columns whose sums are carried at once
constexpr int64_t kPiece = 16384;  // elements of a piece of parallel work

/// The type of running sums: f64 for floats; integers wrap around.
template <class T>
struct SumOf {
  using type = std::make_unsigned_t<T>;
};
template <>
struct SumOf<float> {
  using type = double;
};
template <>
struct SumOf<double> {
  using type = double;
};

/// One strip of columns. `step` is the distance to the next row, negative in reverse. `width` is the number of columns
/// if it is known at compile time, else 0.
template <class T, bool exclusive, int64_t width>
void scan_strip(const T* x, T* y, int64_t count, int64_t step, int64_t columns) {
  using Sum = typename SumOf<T>::type;
  if constexpr (width > 0) columns = width;
  std::array<Sum, width == 1 ? 1 : kStrip> sums{};
  for (int64_t i = 0; i < count; ++i, x += step, y += step) {
    for (int64_t c = 0; c < columns; ++c) {
      Sum& sum = sums[static_cast<size_t>(c)];
      const Sum next = sum + static_cast<Sum>(x[c]);
      y[c] = static_cast<T>(exclusive ? sum : next);
      sum = next;
    }
  }
}

template <class T, bool exclusive>
void scan(int64_t outer, int64_t count, int64_t inner, bool reverse, const T* x, T* y) {
  const int64_t strips = ceil_div(inner, kStrip);
  const int64_t grain = std::max<int64_t>(1, kPiece / (count * std::min(inner, kStrip)));
  const int64_t start = reverse ? (count - 1) * inner : 0;
  parallel_for(outer * strips, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t column = piece % strips * kStrip;
      const int64_t place = piece / strips * count * inner + start + column;
      const int64_t step = reverse ? -inner : inner;
      const int64_t columns = std::min(kStrip, inner - column);
      if (columns == 1) {
        scan_strip<T, exclusive, 1>(x + place, y + place, count, step, 1);
      } else if (columns == kStrip) {
        scan_strip<T, exclusive, kStrip>(x + place, y + place, count, step, kStrip);
      } else {
        scan_strip<T, exclusive, 0>(x + place, y + place, count, step, columns);
      }
    }
  });
}

}  // namespace

void cumsum(int64_t outer, int64_t count, int64_t inner, bool exclusive, bool reverse, const Tensor& x,
            const Tensor& y) {
  visit_numeric(x.dtype(), "cumsum", [&]<class T>(TypeTag<T>) {
    if (exclusive) {
      scan<T, true>(outer, count, inner, reverse, x.data<T>(), y.data<T>());
    } else {
      scan<T, false>(outer, count, inner, reverse, x.data<T>(), y.data<T>());
    }
  });
}

}  // namespace bochner::cpu
