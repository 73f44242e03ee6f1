#include "engine/ops/rotary.h"

#include "engine/bf16.h"
#include "engine/cuda/parts/launch.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

/// One pair of numbers per thread: (a; b) -> (a cos - b sin; b cos + a sin).
template <class S>
struct Turn {
  using T = ComputeType<S>;
  RotarySizes sizes;
  const S* x;
  const T* cosines;
  const T* sines;
  S* y;

  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t half = sizes.dim / 2;
    const int64_t vector = i / half;
    const int64_t j = i % half;
    const int64_t at = vector * sizes.dim + j;
    if (vector % sizes.vectors >= sizes.turned) {
      y[at] = x[at];
      y[at + half] = x[at + half];
      return;
    }
    const int64_t angle = vector / sizes.vectors % sizes.length * half + j;
    const auto a = static_cast<T>(x[at]);
    const auto b = static_cast<T>(x[at + half]);
    const T cosine = cosines[angle];
    const T sine = sizes.back ? -sines[angle] : sines[angle];
    y[at] = static_cast<S>(math::fma(a, cosine, -(b * sine)));
    y[at + half] = static_cast<S>(math::fma(a, sine, b * cosine));
  }
};

}  // namespace

void rotary(const RotarySizes& sizes, const Tensor& x, const Tensor& cosines, const Tensor& sines, const Tensor& y) {
  visit_stored(x.dtype(), "rotary", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    launch_threads(sizes.tokens * sizes.vectors * (sizes.dim / 2),
                   Turn<S>{sizes, x.data<S>(), cosines.data<T>(), sines.data<T>(), y.data<S>()});
  });
}

}  // namespace bochner::cuda
