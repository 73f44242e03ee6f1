// Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
// laid out as cuRAND's curand_init(seed, subsequence = 0, offset): 32-bit word number i of the stream of `seed` is
// lane i % 4 of philox(counter = i / 4, key = seed). The value at a place depends on the place alone, so every device
// draws the same numbers with any number of threads, and a mask can be drawn again instead of being stored.
//
//   Generator generator(42);
//   Tensor noise = normal({128, 64}, generator);          // advances the generator's offset
#pragma once

#include <array>
#include <cstdint>

#include "engine/tensor.h"

namespace bochner {

using PhiloxBlock = std::array<uint32_t, 4>;

/// Ten rounds of Philox4x32.
PhiloxBlock philox(PhiloxBlock counter, std::array<uint32_t, 2> key);

/// A place in a stream of random words; passed explicitly, never global.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0, uint64_t offset = 0) : seed_(seed), offset_(offset) {}

  uint64_t seed() const { return seed_; }
  /// Number of 32-bit words consumed so far.
  uint64_t offset() const { return offset_; }
  void set_offset(uint64_t offset) { offset_ = offset; }

  /// Reserves `words` words, rounded up to whole blocks of four, and returns the place of the first.
  Generator reserve(uint64_t words) {
    const Generator place(seed_, offset_);
    offset_ += round_up(words, 4);
    return place;
  }
  /// An independent generator for a named purpose: its seed is a hash of this seed and `stream`.
  Generator fork(uint64_t stream) const;

  /// The next 32-bit word.
  uint32_t next();
  /// An integer uniform in [0, bound), without bias; bound must be positive.
  int64_t below(int64_t bound);
  /// A double uniform in (0, 1].
  double uniform();

  bool operator==(const Generator&) const = default;

 private:
  uint64_t seed_;
  uint64_t offset_;
};

/// Uniform in (low, high]: f32 from one word x as x * 2^-32 + 2^-33, f64 from two words (53 bits). f32 or f64. A number
/// too near to `low` for its type is rounded to it.
Tensor uniform(const Shape& shape, Generator& generator, double low = 0, double high = 1, DType dtype = DType::f32,
               Device device = Device::cpu());
/// Normal by Box and Muller from pairs of words, as cuRAND: (sin, cos)(2 pi v) * sqrt(-2 ln u). f32 or f64.
Tensor normal(const Shape& shape, Generator& generator, double mean = 0, double deviation = 1, DType dtype = DType::f32,
              Device device = Device::cpu());
/// 1 with that probability, else 0, in the given type; element i is 1 where word i < probability * 2^32.
Tensor bernoulli(const Shape& shape, double probability, Generator& generator, DType dtype = DType::f32,
                 Device device = Device::cpu());
/// Integers (i64) uniform in [low, high).
Tensor integers(const Shape& shape, int64_t low, int64_t high, Generator& generator, Device device = Device::cpu());
/// A uniformly random order of 0 ... count - 1 (i64), by Fisher and Yates.
Tensor permutation(int64_t count, Generator& generator, Device device = Device::cpu());

}  // namespace bochner
