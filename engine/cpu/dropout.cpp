#include "engine/ops/dropout.h"

#include "engine/cpu/parts/dropout_window.h"
#include "engine/cpu/parts/stream.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kGrain = 32768;

/// y[i] = f(factor of element i, i) for all i.
template <class T, class F>
void make(const Dropout& drop, T* y, int64_t size, const F& f) {
  parallel_for(size, kGrain, [&](int64_t begin, int64_t end) {
    DropoutWindow<T> window(drop);
    BlockWriter<T> writer(y + begin, size);
    window.for_each_run(begin, end - begin, [&](int64_t run, const auto& factor, int64_t count) {
      T* to = writer.block(count);
      const int64_t first = begin + run;
      for (int64_t j = 0; j < count; ++j) to[j] = f(factor(j), first + j);
    });
  });
}

}  // namespace

void dropout(const Tensor& x, const Dropout& drop, const Tensor& y) {
  visit_floating(x.dtype(), "dropout", [&]<class T>(TypeTag<T>) {
    const T* from = x.data<T>();
    make(drop, y.data<T>(), x.size(), [from](T factor, int64_t i) { return from[i] * factor; });
  });
}

void dropout_mask(const Dropout& drop, const Tensor& y) {
  visit_floating(y.dtype(), "dropout", [&]<class T>(TypeTag<T>) {
    make(drop, y.data<T>(), y.size(), [](T factor, int64_t) { return factor; });
  });
}

}  // namespace bochner::cpu
