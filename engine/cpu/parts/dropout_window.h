// The factors of dropout, drawn in runs.
#pragma once

#include <algorithm>
#include <cstring>

#include "engine/ops/dropout.h"
#include "engine/philox.h"

namespace bochner::cpu {

/// Draws the factors of runs of elements, 0 or the scale, as they are needed. Lives on the stack of a kernel.
template <class T>
class DropoutWindow {
 public:
  static constexpr int64_t kElements = 2 * PhiloxWindow::kWords - 64;  ///< whole cache lines

  explicit DropoutWindow(const Dropout& drop)
      : place_(drop.place), threshold_(drop.threshold), scale_(static_cast<T>(drop.scale())) {}

  /// The factors of `count` <= kElements elements from `first` on, as a function of their number; valid until the next
  /// draw.
  auto draw(int64_t first, int64_t count) {
    const auto place = static_cast<uint64_t>(first);
    const uint32_t* words = window_.draw(place_.seed(), place_.offset() + place / 2, ceil_div(first % 2 + count, 2));
    const auto* bytes = reinterpret_cast<const unsigned char*>(words) + 2 * (place % 2);
    return [threshold = threshold_, scale = scale_, bytes](int64_t j) {
      uint16_t half = 0;
      std::memcpy(&half, bytes + 2 * j, sizeof(half));
      return half >= threshold ? scale : T(0);
    };
  }

  /// body(i, factors, n): `factors(j)` for j in [0, n) is that of element first + i + j; runs cover [0, count) in
  /// order.
  template <class Body>
  void for_each_run(int64_t first, int64_t count, const Body& body) {
    for (int64_t i = 0; i < count; i += kElements) {
      const int64_t n = std::min(kElements, count - i);
      body(i, draw(first + i, n), n);
    }
  }

 private:
  Generator place_;
  uint32_t threshold_;
  T scale_;
  PhiloxWindow window_;
};

}  // namespace bochner::cpu
