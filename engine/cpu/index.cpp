#include "engine/ops/index.h"

#include <cstring>

#include "engine/cpu/parts/find.h"
#include "engine/cpu/parts/rows.h"

namespace bochner::cpu {
namespace {

template <class T>
void gather_rows(const Loop& loop, int64_t stride) {
  for_each_row<3>(loop, [&](const Row<3>& row) {
    T* y = loop.at<T>(0) + row.offsets[0];
    const T* x = loop.at<T>(1) + row.offsets[1];
    const int64_t* index = loop.at<int64_t>(2) + row.offsets[2];
    const auto [y_step, x_step, index_step] = row.strides;
    if (index_step == 0) {
      x += *index * stride;
      if (y_step == 1 && x_step == 1) {
        std::memcpy(y, x, static_cast<size_t>(row.size) * sizeof(T));
      } else {
        for (int64_t i = 0; i < row.size; ++i) y[i * y_step] = x[i * x_step];
      }
    } else {
      for (int64_t i = 0; i < row.size; ++i) y[i * y_step] = x[i * x_step + index[i * index_step] * stride];
    }
  });
}

constexpr int64_t kStripBytes = 128;  // two cache lines, so that threads that share rows never write to the same line

template <class T>
void scatter_add_strips(const Scatter& s, const int64_t* index, const T* source, T* y) {
  // Threads divide the columns: each sees all rows in order, and no two write to the same element.
  constexpr int64_t kStrip = kStripBytes / static_cast<int64_t>(sizeof(T));
  const int64_t strips = ceil_div(s.inner, kStrip);
  const int64_t grain = std::max<int64_t>(1, kPiece / (s.count * std::min(s.inner, kStrip)));
  parallel_for(s.outer * strips, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t o = piece / strips;
      const int64_t first = piece % strips * kStrip;
      const int64_t columns = std::min(kStrip, s.inner - first);
      const int64_t* bins = index + o * s.outer_stride + first * s.inner_stride;
      const T* from = source + o * s.count * s.inner + first;
      T* base = y + o * s.bins * s.inner + first;
      for (int64_t i = 0; i < s.count; ++i, bins += s.count_stride, from += s.inner) {
        if (s.inner_stride == 0) {
          T* to = base + *bins * s.inner;
          for (int64_t c = 0; c < columns; ++c) to[c] += from[c];
        } else {
          for (int64_t c = 0; c < columns; ++c) base[bins[c] * s.inner + c] += from[c];
        }
      }
    }
  });
}

}  // namespace

void check_index(const Tensor& index, int64_t bound, const char* op) {
  const auto* values = index.data<int64_t>();
  const auto limit = static_cast<uint64_t>(bound);
  const int64_t bad = first_where(index.size(), [&](int64_t i) { return static_cast<uint64_t>(values[i]) >= limit; });
  if (bad == index.size()) return;
  const std::string place = fmt::format("{} of {}", index.shape().place(bad).str(), index.shape().str());
  fail("{}", out_of_range(op, place, values[bad], bound));
}

void gather(const Loop& loop, size_t bytes, int64_t stride) {
  switch (bytes) {
    case 1:
      return gather_rows<uint8_t>(loop, stride);
    case 2:
      return gather_rows<uint16_t>(loop, stride);
    case 4:
      return gather_rows<uint32_t>(loop, stride);
    default:
      BOCHNER_ASSERT(bytes == 8);
      return gather_rows<uint64_t>(loop, stride);
  }
}

void scatter_add(const Scatter& scatter, const Tensor& index, const Tensor& source, const Tensor& y) {
  visit_numeric(y.dtype(), "scatter_add", [&]<class T>(TypeTag<T>) {
    scatter_add_strips(scatter, index.data<int64_t>(), source.data<T>(), y.data<T>());
  });
}

void one_hot(const Tensor& index, int64_t classes, const Tensor& y) {
  visit_all(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto* chosen = index.data<int64_t>();
    parallel_for(index.size(), std::max<int64_t>(1, kPiece / classes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* row = y.data<T>() + i * classes;
        std::fill(row, row + classes, T(0));
        row[chosen[i]] = T(1);
      }
    });
  });
}

}  // namespace bochner::cpu
