// Random words on the device, a few per thread.
#pragma once

#include "engine/cuda/parts/launch.h"
#include "engine/ops/dropout.h"
#include "engine/philox.h"
#include "engine/step_graph.h"

namespace bochner::cuda {

/// Where the words of a launch begin in a stream; each replay of a recorded step starts further on.
struct StreamPlace {
  uint64_t seed, offset;
  const uint64_t* shift;

  explicit StreamPlace(const Generator& place)
      : seed(place.seed()), offset(place.offset()), shift(StepGraph::shift(place)) {}
  /// The place of a dropout, which may be inactive.
  explicit StreamPlace(const Dropout& drop)
      : seed(drop.place.seed()),
        offset(drop.place.offset()),
        shift(drop.active() ? StepGraph::shift(drop.place) : nullptr) {}
  BOCHNER_DEVICE uint64_t now() const { return shift == nullptr ? offset : offset + *shift; }
};

/// Words of one stream, read in ascending order, so that each block of four is computed only once.
class WordReader {
 public:
  BOCHNER_DEVICE WordReader(uint64_t seed, uint64_t place)
      : seed_(seed), block_(place / 4), words_(philox_at(seed, block_)) {}
  BOCHNER_DEVICE uint32_t operator()(uint64_t place) {
    if (place / 4 != block_) {
      block_ = place / 4;
      words_ = philox_at(seed_, block_);
    }
    const auto lane = static_cast<uint32_t>(place % 4);
    const uint32_t low = lane % 2 == 0 ? words_.x : words_.y;
    const uint32_t high = lane % 2 == 0 ? words_.z : words_.w;
    return lane < 2 ? low : high;
  }

 private:
  uint64_t seed_;
  uint64_t block_;
  PhiloxWords words_;
};

/// What a kernel needs to know of a dropout.
template <class T>
struct DropoutFactors {
  StreamPlace place;
  uint32_t threshold;
  T scale;

  explicit DropoutFactors(const Dropout& drop)
      : place(drop), threshold(drop.threshold), scale(static_cast<T>(drop.scale())) {}

  /// The factors, 0 or the scale, of `count` elements from `first` on, a multiple of count: 1, 2, 4 or 8. They need one
  /// block of words, or two if the position in the stream, `from` = place.now(), splits it.
  template <int count>
  BOCHNER_DEVICE void read(uint64_t from, int64_t first, T (&factor)[count]) const {
    constexpr int kWords = (count + 1) / 2;
    const uint64_t begin = from + static_cast<uint64_t>(first) / 2;
    const auto lane = static_cast<uint32_t>(begin % 4);
    const PhiloxWords here = philox_at(place.seed, begin / 4);
    PhiloxWords next{};
    if (lane + kWords > 4) next = philox_at(place.seed, begin / 4 + 1);
    uint32_t words[8] = {here.x, here.y, here.z, here.w, next.x, next.y, next.z, next.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = (lane & 2) != 0 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = (lane & 1) != 0 ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const bool high = count == 1 ? first % 2 != 0 : i % 2 != 0;
      const uint32_t half = high ? words[i / 2] >> 16 : words[i / 2] & 0xFFFFU;
      factor[i] = of_half(half);
    }
  }
  /// The four words for eight elements, starting at a multiple of eight; the lower half of a word is for the first
  /// element.
  BOCHNER_DEVICE void words(uint64_t from, int64_t first, uint32_t (&words)[4]) const {
    const uint64_t begin = from + static_cast<uint64_t>(first) / 2;
    const auto lane = static_cast<uint32_t>(begin % 4);
    const PhiloxWords here = philox_at(place.seed, begin / 4);
    PhiloxWords next{};
    if (lane != 0) next = philox_at(place.seed, begin / 4 + 1);
    const uint32_t both[8] = {here.x, here.y, here.z, here.w, next.x, next.y, next.z, next.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = (lane & 1) != 0 ? both[i + 1] : both[i];
      const uint32_t high = (lane & 1) != 0 ? both[i + 3] : both[i + 2];
      words[i] = (lane & 2) != 0 ? high : low;
    }
  }
  BOCHNER_DEVICE T of_half(uint32_t half) const { return half >= threshold ? scale : T(0); }
  template <int count>
  BOCHNER_DEVICE void read(int64_t first, T (&factor)[count]) const {
    read(place.now(), first, factor);
  }
  BOCHNER_DEVICE T at(int64_t element) const {
    T factor[1];
    read(element, factor);
    return factor[0];
  }
};

/// Elements per block of words.
inline constexpr int kFactors = 8;

}  // namespace bochner::cuda
