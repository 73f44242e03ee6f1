// Dropout's decisions (engine/ops/dropout.h) as bits, 32 elements to a word.
#pragma once

#include "engine/cuda/parts/philox.h"

namespace bochner::cuda {

/// Draws these bits. The host computes the keys of all rounds, as they are the same for all threads.
struct KeptBits {
  StreamPlace place;
  bool active, keeps_some;
  uint32_t least;  ///< the least half word that is kept, in the upper half
  uint32_t keys[2 * kPhiloxRounds];

  explicit KeptBits(const Dropout& drop)
      : place(drop), active(drop.active()), keeps_some(drop.threshold < 65536), least(drop.threshold << 16), keys() {
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      keys[2 * round] = static_cast<uint32_t>(place.seed) + round * kPhiloxWeyl0;
      keys[2 * round + 1] = static_cast<uint32_t>(place.seed >> 32) + round * kPhiloxWeyl1;
    }
  }

  /// philox_at() of engine/philox.h.
  BOCHNER_DEVICE PhiloxWords words(uint64_t block) const {
    PhiloxWords x{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0};
#pragma unroll
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const uint64_t a = static_cast<uint64_t>(kPhiloxMultiplier0) * x.x;
      const uint64_t b = static_cast<uint64_t>(kPhiloxMultiplier1) * x.z;
      x = {static_cast<uint32_t>(b >> 32) ^ x.y ^ keys[2 * round], static_cast<uint32_t>(b),
           static_cast<uint32_t>(a >> 32) ^ x.w ^ keys[2 * round + 1], static_cast<uint32_t>(a)};
    }
    return x;
  }
  /// The position of an element's half word in the stream.
  BOCHNER_DEVICE uint64_t half(int64_t element) const { return 2 * place.now() + static_cast<uint64_t>(element); }
  /// Bit i: whether the element with half word begin + i is kept. A block has eight half words.
  BOCHNER_DEVICE uint32_t operator()(uint64_t begin) const { return some<32>(begin); }
  /// The same if only the first `count` bits are wanted: 16 or 32.
  template <int count>
  BOCHNER_DEVICE uint32_t some(uint64_t begin) const {
    const auto skipped = static_cast<uint32_t>(begin % 8);
    uint32_t bits = 0;
#pragma unroll
    for (int b = 0; b < count / 8; ++b) bits |= of_block(begin / 8 + static_cast<uint64_t>(b)) << (8 * b);
    if (skipped > 0) bits = bits >> skipped | of_block(begin / 8 + count / 8) << (count - skipped);
    return keeps_some ? bits : 0;
  }
  BOCHNER_DEVICE uint32_t of_block(uint64_t block) const {
    const PhiloxWords drawn = words(block);
    uint32_t kept = 0;
    const auto add = [&](uint32_t word, uint32_t low, uint32_t high) {
      if (word << 16 >= least) kept |= low;
      if (word >= least) kept |= high;
    };
    add(drawn.x, 1, 2);
    add(drawn.y, 4, 8);
    add(drawn.z, 16, 32);
    add(drawn.w, 64, 128);
    return kept;
  }
};

}  // namespace bochner::cuda
