#include "engine/ops/index.h"

#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/scatter.h"

namespace bochner::cuda {
namespace {

struct Check {
  int64_t bound;
  const int64_t* index;
  const char* op;
  Fault* fault;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    if (index[i] < 0 || index[i] >= bound) raise(fault, op, i, index[i], bound);
  }
};

template <class T>
struct Gather {
  Strides<3> strides;
  int64_t step;
  const Fault* fault;
  T* y;
  const T* x;
  const int64_t* index;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    if (fault->raised != 0) return;  // the index may be anywhere
    const auto offsets = strides.offsets(static_cast<uint32_t>(i));
    y[offsets.at[0]] = x[offsets.at[1] + index[offsets.at[2]] * step];
  }
};

template <class T>
void gather_all(const Loop& loop, int64_t step) {
  for_each_piece<3>(loop,
                    [&](const Loop& piece, const Strides<3>& strides) {
                      launch_threads(piece.size, Gather<T>{strides, step, platform::fault(), piece.at<T>(0),
                                                           piece.at<T>(1), piece.at<int64_t>(2)});
                    },
                    {sizeof(T), sizeof(T), sizeof(int64_t)});
}

template <class T>
struct OneHot {
  int64_t classes;
  const int64_t* index;
  T one;
  T* y;
  BOCHNER_DEVICE void operator()(int64_t i) const { y[i] = index[i / classes] == i % classes ? one : T{}; }
};

}  // namespace

void check_index(const Tensor& index, int64_t bound, const char* op) {
  launch_threads(index.size(), Check{bound, index.data<int64_t>(), op, platform::fault()});
}

void gather(const Loop& loop, size_t bytes, int64_t stride) {
  switch (bytes) {
    case 1:
      return gather_all<uint8_t>(loop, stride);
    case 2:
      return gather_all<uint16_t>(loop, stride);
    case 4:
      return gather_all<uint32_t>(loop, stride);
    default:
      BOCHNER_ASSERT(bytes == 8);
      return gather_all<uint64_t>(loop, stride);
  }
}

void scatter_add(const Scatter& s, const Tensor& index, const Tensor& source, const Tensor& y) {
  const int64_t width = s.inner_stride == 0 ? s.inner : 1;
  visit_numeric(y.dtype(), "scatter_add", [&]<class T>(TypeTag<T>) {
    add_by_bin({s.outer, s.bins, s.count, s.inner, width, s.outer_stride, s.count_stride, s.inner_stride, -1,
                index.data<int64_t>(), platform::fault(), "scatter_add"},
               source.data<T>(), y.data<T>());
  });
}

void one_hot(const Tensor& index, int64_t classes, const Tensor& y) {
  visit_all(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch_threads(y.size(), OneHot<T>{classes, index.data<int64_t>(), T(1), y.data<T>()});
  });
}

}  // namespace bochner::cuda
