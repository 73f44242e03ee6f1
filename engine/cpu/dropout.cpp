#include "engine/cpu/dropout.h"

#include "engine/parallel.h"
#include "engine/philox.h"

namespace bochner::cpu {

void dropout(const Tensor& x, double p, const Generator& place, const Tensor& y) {
  const auto threshold = static_cast<uint32_t>(p * 0x1p32);
  visit_floating(x.dtype(), "dropout", [&]<class T>(TypeTag<T>) {
    const T scale = T(1) / static_cast<T>(1 - p);
    parallel_for(x.size(), 8 * PhiloxWindow::kWords, [&](int64_t begin, int64_t end) {
      PhiloxWindow window;
      for (int64_t first = begin; first < end; first += PhiloxWindow::kWords) {
        const int64_t count = std::min(PhiloxWindow::kWords, end - first);
        const uint32_t* words = window.draw(place.seed(), place.offset() + static_cast<uint64_t>(first), count);
        const T* from = x.data<T>() + first;
        T* to = y.data<T>() + first;
        for (int64_t i = 0; i < count; ++i) to[i] = words[i] >= threshold ? from[i] * scale : T(0);
      }
    });
  });
}

}  // namespace bochner::cpu
