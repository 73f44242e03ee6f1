#include "engine/random.h"

#include "engine/parallel.h"
#include "engine/philox.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kGrain = 16 * PhiloxWindow::kWords;

/// body(first element, number of elements, their words) over windows of elements that take `words_each` words.
template <int words_each, class Body>
void for_each_window(int64_t count, Generator place, const Body& body) {
  constexpr int64_t kElements = PhiloxWindow::kWords / words_each;
  parallel_for(count, kGrain / words_each, [&](int64_t begin, int64_t end) {
    PhiloxWindow window;
    for (int64_t first = begin; first < end; first += kElements) {
      const int64_t elements = std::min(kElements, end - first);
      // Box and Muller make elements in pairs, so all words of the last pair are drawn.
      const int64_t words = round_up(elements, 2) * words_each;
      body(first, elements,
           window.draw(place.seed(), place.offset() + static_cast<uint64_t>(first * words_each), words));
    }
  });
}

}  // namespace

void uniform(void* to, int64_t count, DType dtype, Generator place, double low, double high) {
  if (dtype == DType::f32) {
    const auto base = static_cast<float>(low);
    const auto top = static_cast<float>(high);
    const auto width = static_cast<float>(high - low);
    for_each_window<1>(count, place, [&](int64_t first, int64_t elements, const uint32_t* words) {
      float* out = static_cast<float*>(to) + first;
      for (int64_t i = 0; i < elements; ++i) {
        const float value = math::fma(uniform_from(words[i]), width, base);
        out[i] = value < top ? value : top;
      }
    });
  } else {
    for_each_window<2>(count, place, [&](int64_t first, int64_t elements, const uint32_t* words) {
      double* out = static_cast<double*>(to) + first;
      for (int64_t i = 0; i < elements; ++i) {
        const double value = math::fma(uniform_from(words[2 * i], words[2 * i + 1]), high - low, low);
        out[i] = value < high ? value : high;
      }
    });
  }
}

void normal(void* to, int64_t count, DType dtype, Generator place, double mean, double deviation) {
  if (dtype == DType::f32) {
    const auto centre = static_cast<float>(mean);
    const auto scale = static_cast<float>(deviation);
    for_each_window<1>(count, place, [&](int64_t first, int64_t elements, const uint32_t* words) {
      float* out = static_cast<float*>(to) + first;
      const int64_t pairs = elements / 2;
      for (int64_t i = 0; i < pairs; ++i) {
        const NormalPair<float> pair = normal_pair(words[2 * i], words[2 * i + 1]);
        out[2 * i] = math::fma(pair.first, scale, centre);
        out[2 * i + 1] = math::fma(pair.second, scale, centre);
      }
      if (elements % 2 != 0) {
        const NormalPair<float> pair = normal_pair(words[2 * pairs], words[2 * pairs + 1]);
        out[2 * pairs] = math::fma(pair.first, scale, centre);
      }
    });
  } else {
    for_each_window<2>(count, place, [&](int64_t first, int64_t elements, const uint32_t* words) {
      double* out = static_cast<double*>(to) + first;
      for (int64_t i = 0; i < elements; i += 2) {
        const uint32_t* w = words + 2 * i;
        const NormalPair<double> pair = normal_pair(w[0], w[1], w[2], w[3]);
        out[i] = math::fma(pair.first, deviation, mean);
        if (i + 1 < elements) out[i + 1] = math::fma(pair.second, deviation, mean);
      }
    });
  }
}

void bernoulli(void* to, int64_t count, DType dtype, Generator place, uint64_t threshold) {
  visit_all(dtype, [&]<class T>(TypeTag<T>) {
    T* data = static_cast<T*>(to);
    if (threshold == 0) {
      std::fill(data, data + count, T(0));
      return;
    }
    const auto last = static_cast<uint32_t>(threshold - 1);
    for_each_window<1>(count, place, [&](int64_t first, int64_t elements, const uint32_t* words) {
      for (int64_t i = 0; i < elements; ++i) data[first + i] = words[i] <= last ? T(1) : T(0);
    });
  });
}

void integers(int64_t* to, int64_t count, Generator place, int64_t low, uint64_t range) {
  for_each_window<2>(count, place, [&](int64_t first, int64_t elements, const uint32_t* words) {
    for (int64_t i = 0; i < elements; ++i) {
      const uint64_t x = words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
      to[first + i] = static_cast<int64_t>(static_cast<uint64_t>(low) + scaled_to(range, x));
    }
  });
}

}  // namespace bochner::cpu
