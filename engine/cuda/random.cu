#include "engine/random.h"

#include "engine/cuda/parts/philox.h"

namespace bochner::cuda {
namespace {

/// Elements first ... first + kEach - 1 of `count`, computed by make(words, position of the first word, number) as
/// T[kEach].
template <class T, class Make>
struct Fill {
  static constexpr int kWordsEach = Make::kWordsEach;  ///< per element
  static constexpr int kEach = 4 / kWordsEach;
  Make make;
  StreamPlace place;
  int64_t count;
  T* to;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t first = t * kEach;
    const uint64_t at = place.now() + static_cast<uint64_t>(first) * kWordsEach;
    WordReader words(place.seed, at);
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = words(at + static_cast<uint64_t>(i));
    T values[kEach];
    make(w, values);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + i < count) to[first + i] = values[i];
    }
  }
};

template <class T, class Make>
void fill(void* to, int64_t count, const Generator& place, const Make& make) {
  using Kernel = Fill<T, Make>;
  launch_threads(ceil_div(count, Kernel::kEach), Kernel{make, StreamPlace(place), count, static_cast<T*>(to)});
}

struct Uniform32 {
  static constexpr int kWordsEach = 1;
  float base, width, top;
  BOCHNER_DEVICE void operator()(const uint32_t* w, float* to) const {
    for (int i = 0; i < 4; ++i) {
      const float value = math::fma(uniform_from(w[i]), width, base);
      to[i] = value < top ? value : top;
    }
  }
};
struct Uniform64 {
  static constexpr int kWordsEach = 2;
  double base, width, top;
  BOCHNER_DEVICE void operator()(const uint32_t* w, double* to) const {
    for (int i = 0; i < 2; ++i) {
      const double value = math::fma(uniform_from(w[2 * i], w[2 * i + 1]), width, base);
      to[i] = value < top ? value : top;
    }
  }
};
struct Normal32 {
  static constexpr int kWordsEach = 1;
  float mean, deviation;
  BOCHNER_DEVICE void operator()(const uint32_t* w, float* to) const {
    for (int i = 0; i < 4; i += 2) {
      const NormalPair<float> pair = normal_pair(w[i], w[i + 1]);
      to[i] = math::fma(pair.first, deviation, mean);
      to[i + 1] = math::fma(pair.second, deviation, mean);
    }
  }
};
struct Normal64 {
  static constexpr int kWordsEach = 2;
  double mean, deviation;
  BOCHNER_DEVICE void operator()(const uint32_t* w, double* to) const {
    const NormalPair<double> pair = normal_pair(w[0], w[1], w[2], w[3]);
    to[0] = math::fma(pair.first, deviation, mean);
    to[1] = math::fma(pair.second, deviation, mean);
  }
};
template <class T>
struct Bernoulli {
  static constexpr int kWordsEach = 1;
  uint64_t threshold;
  T one;
  BOCHNER_DEVICE void operator()(const uint32_t* w, T* to) const {
    for (int i = 0; i < 4; ++i) to[i] = w[i] < threshold ? one : T{};
  }
};
struct Integers {
  static constexpr int kWordsEach = 2;
  uint64_t low, range;
  BOCHNER_DEVICE void operator()(const uint32_t* w, int64_t* to) const {
    for (int i = 0; i < 2; ++i) {
      const uint64_t x = w[2 * i] | static_cast<uint64_t>(w[2 * i + 1]) << 32;
      to[i] = static_cast<int64_t>(low + scaled_to(range, x));
    }
  }
};

}  // namespace

void uniform(void* to, int64_t count, DType dtype, Generator place, double low, double high) {
  if (dtype == DType::f32) {
    fill<float>(to, count, place,
                Uniform32{static_cast<float>(low), static_cast<float>(high - low), static_cast<float>(high)});
  } else {
    fill<double>(to, count, place, Uniform64{low, high - low, high});
  }
}

void normal(void* to, int64_t count, DType dtype, Generator place, double mean, double deviation) {
  if (dtype == DType::f32) {
    fill<float>(to, count, place, Normal32{static_cast<float>(mean), static_cast<float>(deviation)});
  } else {
    fill<double>(to, count, place, Normal64{mean, deviation});
  }
}

void bernoulli(void* to, int64_t count, DType dtype, Generator place, uint64_t threshold) {
  visit_all(dtype, [&]<class T>(TypeTag<T>) { fill<T>(to, count, place, Bernoulli<T>{threshold, T(1)}); });
}

void integers(int64_t* to, int64_t count, Generator place, int64_t low, uint64_t range) {
  fill<int64_t>(to, count, place, Integers{static_cast<uint64_t>(low), range});
}

}  // namespace bochner::cuda
