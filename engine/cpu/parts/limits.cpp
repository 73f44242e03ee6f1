#include "engine/cpu/parts/limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/cpu/bf16/pack.h"
#include "engine/cpu/parts/vector.h"
#include "engine/parallel.h"
#include "engine/precision.h"
#include "engine/tensor.h"

namespace bochner::cpu {
namespace {

constexpr int kRepeats = 15;

/// The shortest of several runs, in seconds.
template <class Run>
double shortest(const Run& run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace

double multiply_add_peak() {
  constexpr int kChains = 12;
  constexpr int64_t kSteps = 200000;
  using V = Vector<float>;
  const double seconds = shortest([] {
    parallel_for(threads(), 1, [](int64_t, int64_t) {
      volatile float seed = 0.5F;  // twelve chains that the compiler cannot see are equal
      V a = V{} + seed, b = V{} + seed, c = V{} + seed, d = V{} + seed, e = V{} + seed, f = V{} + seed;
      V g = V{} + seed, h = V{} + seed, i = V{} + seed, j = V{} + seed, k = V{} + seed, l = V{} + seed;
      const V x = V{} + seed;
      for (int64_t step = 0; step < kSteps; ++step) {
        a = a * x + x, b = b * x + x, c = c * x + x, d = d * x + x, e = e * x + x, f = f * x + x;
        g = g * x + x, h = h * x + x, i = i * x + x, j = j * x + x, k = k * x + x, l = l * x + x;
      }
      const V all = a + b + c + d + e + f + g + h + i + j + k + l;
      volatile float sink = all[0];
      static_cast<void>(sink);
    });
  });
  return 2.0 * kChains * kLanes<float> * kSteps * threads() / seconds;
}

double bf16_product_peak() {
  constexpr int64_t kRows = 64;
  constexpr int64_t kDepth = 128;
  constexpr int kTimes = 2000;
  const double seconds = shortest([] {
    parallel_for(threads(), 1, [](int64_t, int64_t) {
      const Tensor a = Tensor::full({packed_size(kRows, kDepth)}, 0.5, DType::bf16);
      const Tensor c = Tensor::zeros({kRows, kRows}, DType::f32);
      for (int i = 0; i < kTimes; ++i)
        bf16_product(kRows, kRows, kDepth, a.data<bfloat16>(), a.data<bfloat16>(), c.data<float>(), kRows, true);
    });
  });
  return 2.0 * kRows * kRows * kDepth * kTimes * threads() / seconds;
}

double product_peak() { return precision() == Precision::bf16 ? bf16_product_peak() : multiply_add_peak(); }

double copy_bandwidth() {
  constexpr int64_t kBytes = int64_t{128} << 20;
  constexpr int64_t kPiece = int64_t{1} << 20;
  const Tensor from = Tensor::zeros({kBytes}, DType::u8);
  const Tensor to = Tensor::zeros({kBytes}, DType::u8);
  const double seconds = shortest([&] {
    parallel_for(kBytes, kPiece, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data<uint8_t>() + begin, from.data<uint8_t>() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2.0 * kBytes / seconds;
}

}  // namespace bochner::cpu
