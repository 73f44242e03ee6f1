#include "engine/ops/scan.h"

#include <type_traits>

#include "engine/cuda/parts/launch.h"

namespace bochner::cuda {
namespace {

/// The type of running sums: f64 for floats; integers wrap around.
template <class T>
using SumOf =
    std::conditional_t<std::is_floating_point_v<T>, double, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

constexpr int64_t kChunk = 64;  // elements that one thread walks through

/// One thread per column of a chunk: its total or, given what lies before the chunk, its running sums.
template <class T, class Sum>
struct Chunks {
  int64_t count, inner, chunks;
  bool exclusive, reverse;
  const T* x;
  T* y;         ///< null: only totals are wanted
  Sum* totals;  ///< (outer, chunks, inner); with y: the sums before each chunk, or null for 0

  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % inner;
    const int64_t chunk = i / inner % chunks;
    const int64_t base = i / inner / chunks * count * inner + column;
    const int64_t begin = chunk * kChunk;
    const int64_t end = begin + kChunk < count ? begin + kChunk : count;
    Sum sum = y != nullptr && totals != nullptr ? totals[i] : Sum(0);
    for (int64_t j = begin; j < end; ++j) {
      const int64_t at = base + (reverse ? count - 1 - j : j) * inner;
      const Sum next = sum + static_cast<Sum>(x[at]);
      if (y != nullptr) y[at] = static_cast<T>(exclusive ? sum : next);
      sum = next;
    }
    if (y == nullptr) totals[i] = sum;
  }
};

template <class T>
void scan(int64_t outer, int64_t count, int64_t inner, bool exclusive, bool reverse, const T* x, T* y) {
  using Sum = SumOf<T>;
  const int64_t chunks = ceil_div(count, kChunk);
  const int64_t threads = outer * chunks * inner;
  if (chunks == 1) {
    launch_threads(threads, Chunks<T, Sum>{count, inner, chunks, exclusive, reverse, x, y, nullptr});
    return;
  }
  const Tensor memory = Tensor::empty({2 * threads}, DType::i64, Device::cuda(platform::current()));
  auto* totals = static_cast<Sum*>(memory.raw());
  auto* before = reinterpret_cast<Sum*>(memory.data<int64_t>() + threads);
  launch_threads(threads, Chunks<T, Sum>{count, inner, chunks, exclusive, reverse, x, nullptr, totals});
  scan<Sum>(outer, chunks, inner, true, false, totals, before);
  launch_threads(threads, Chunks<T, Sum>{count, inner, chunks, exclusive, reverse, x, y, before});
}

}  // namespace

void cumsum(int64_t outer, int64_t count, int64_t inner, bool exclusive, bool reverse, const Tensor& x,
            const Tensor& y) {
  visit_numeric(x.dtype(), "cumsum", [&]<class T>(TypeTag<T>) {
    scan<T>(outer, count, inner, exclusive, reverse, x.data<T>(), y.data<T>());
  });
}

}  // namespace bochner::cuda
