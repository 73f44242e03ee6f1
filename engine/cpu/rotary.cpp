#include "engine/ops/rotary.h"

#include <algorithm>

#include "engine/cpu/parts/lanes.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kGrain = 32768;  // elements

/// (a; b) -> (a cos - b sin; b cos + a sin), the sines times `sign`.
template <class S, class T>
void turn(int64_t half, T sign, const T* cosines, const T* sines, const S* from, S* to) {
  for_lanes<T>(half, [&]<class V>(TypeTag<V>, int64_t j) {
    const V a = load<V>(from + j);
    const V b = load<V>(from + half + j);
    const V cosine = load<V>(cosines + j);
    const V sine = sign * load<V>(sines + j);
    store(to + j, a * cosine - b * sine);
    store(to + half + j, b * cosine + a * sine);
  });
}

}  // namespace

void rotary(const RotarySizes& sizes, const Tensor& x, const Tensor& cosines, const Tensor& sines, const Tensor& y) {
  visit_stored(x.dtype(), "rotary", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const int64_t half = sizes.dim / 2;
    const int64_t row = sizes.vectors * sizes.dim;
    parallel_for(sizes.tokens, std::max<int64_t>(1, kGrain / row), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const S* from = x.data<S>() + t * row;
        S* to = y.data<S>() + t * row;
        const int64_t angles = t % sizes.length * half;
        for (int64_t v = 0; v < sizes.turned; ++v) {
          turn(half, T(sizes.back ? -1 : 1), cosines.data<T>() + angles, sines.data<T>() + angles, from + v * sizes.dim,
               to + v * sizes.dim);
        }
        std::copy(from + sizes.turned * sizes.dim, from + row, to + sizes.turned * sizes.dim);
      }
    });
  });
}

}  // namespace bochner::cpu
