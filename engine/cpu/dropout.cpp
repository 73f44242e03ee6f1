#include "engine/ops/dropout.h"

#include "engine/bf16.h"
#include "engine/cpu/parts/dropout_window.h"
#include "engine/cpu/parts/lanes.h"
#include "engine/cpu/parts/stream.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kGrain = 32768;

/// y[i] = f(factor of element i, i) for all i.
template <class S, class F>
void make(const Dropout& drop, S* y, int64_t size, const F& f) {
  using T = ComputeType<S>;
  parallel_for(size, kGrain, [&](int64_t begin, int64_t end) {
    DropoutWindow<T> window(drop);
    BlockWriter<S> writer(y + begin, size);
    window.for_each_run(begin, end - begin, [&](int64_t run, const auto& factor, int64_t count) {
      S* to = writer.block(count);
      const int64_t first = begin + run;
      for (int64_t j = 0; j < count; ++j) store<T>(to + j, f(factor(j), first + j));
    });
  });
}

}  // namespace

void dropout(const Tensor& x, const Dropout& drop, const Tensor& y) {
  visit_stored(x.dtype(), "dropout", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const S* from = x.data<S>();
    make(drop, y.data<S>(), x.size(), [from](T factor, int64_t i) { return load<T>(from + i) * factor; });
  });
}

void dropout_mask(const Dropout& drop, const Tensor& y) {
  visit_floating(y.dtype(), "dropout", [&]<class T>(TypeTag<T>) {
    make(drop, y.data<T>(), y.size(), [](T factor, int64_t) { return factor; });
  });
}

}  // namespace bochner::cpu
