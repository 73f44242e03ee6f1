#include "engine/ops/dropout.h"

#include "engine/bf16.h"
#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/philox.h"

namespace bochner::cuda {
namespace {

/// Elements moved at once: 16 bytes.
template <class S>
inline constexpr int kAtOnce = 16 / sizeof(S);

/// Vectors per thread, all loaded before the first word is drawn.
constexpr int kEach = 2;

/// y = x factor; a null x stands for 1. A thread has the vectors t, t + threads, ..., of which `whole` may be moved as
/// vectors.
template <class S>
struct Drop {
  using T = ComputeType<S>;
  static constexpr int kVector = kAtOnce<S>;
  using Values = Vector<S, kVector>;
  DropoutFactors<T> drop;
  int64_t count, threads, whole;
  const S* x;
  S* y;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const uint64_t place = drop.place.now();
    if (t + (kEach - 1) * threads < whole) {
      Values value[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int64_t at = t + i * threads;
        if (x != nullptr) value[i] = reinterpret_cast<const Values*>(x)[at];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int64_t at = t + i * threads;
        T factor[kVector];
        drop.read(place, at * kVector, factor);
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
          const T from = x == nullptr ? T(1) : static_cast<T>(value[i].at[j]);
          value[i].at[j] = static_cast<S>(from * factor[j]);
        }
        reinterpret_cast<Values*>(y)[at] = value[i];
      }
      return;
    }
    for (int i = 0; i < kEach; ++i) {
      const int64_t first = (t + i * threads) * kVector;
      if (first >= count) return;
      T factor[kVector];
      drop.read(place, first, factor);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const int64_t at = first + j;
        if (at >= count) break;
        y[at] = static_cast<S>((x == nullptr ? T(1) : static_cast<T>(x[at])) * factor[j]);
      }
    }
  }
};

void run(const Dropout& drop, const Tensor* x, const Tensor& y) {
  visit_stored(y.dtype(), "dropout", [&]<class S>(TypeTag<S>) {
    const S* from = x == nullptr ? nullptr : x->data<S>();
    const auto movable = [](const S* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
    const bool vectors = movable(from) && movable(y.data<S>());
    const int64_t threads = ceil_div(y.size(), kEach * kAtOnce<S>);
    launch_threads(threads, Drop<S>{DropoutFactors<ComputeType<S>>(drop), y.size(), threads,
                                    vectors ? y.size() / kAtOnce<S> : 0, from, y.data<S>()});
  });
}

}  // namespace

void dropout(const Tensor& x, const Dropout& drop, const Tensor& y) { run(drop, &x, y); }

void dropout_mask(const Dropout& drop, const Tensor& y) { run(drop, nullptr, y); }

}  // namespace bochner::cuda
