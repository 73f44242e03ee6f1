#include "engine/random.h"

#include <cmath>
#include <utility>

#include "engine/kernel.h"
#include "engine/philox.h"
#include "engine/step_graph.h"

namespace bochner {

// Each fills `count` contiguous elements from the words that begin at `place`: one word for each f32, two for each f64
// or i64.

BOCHNER_KERNEL(uniform_kernel, "uniform", uniform, void* to, int64_t count, DType dtype, Generator place, double low,
               double high);
BOCHNER_KERNEL(normal_kernel, "normal", normal, void* to, int64_t count, DType dtype, Generator place, double mean,
               double deviation);
// Any type; 1 where word i < threshold, which is at most 2^32.
BOCHNER_KERNEL(bernoulli_kernel, "bernoulli", bernoulli, void* to, int64_t count, DType dtype, Generator place,
               uint64_t threshold);
// i64: low + floor(x * range / 2^64) with x the two words, lower first.
BOCHNER_KERNEL(integers_kernel, "integers", integers, int64_t* to, int64_t count, Generator place, int64_t low,
               uint64_t range);

namespace {

/// The number of words for `count` elements, one or two each; an odd number of elements takes the words of one more.
uint64_t words_for(int64_t count, DType dtype) {
  const uint64_t each = dtype == DType::f32 ? 1 : 2;
  return round_up(static_cast<uint64_t>(count), 2) * each;
}

}  // namespace

PhiloxBlock philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  const PhiloxWords words = philox_rounds({counter[0], counter[1], counter[2], counter[3]}, key[0], key[1]);
  return {words.x, words.y, words.z, words.w};
}

Generator Generator::fork(uint64_t stream) const {
  // Counters of drawn words end in two zeros, so a drawn word is never part of a forked seed.
  const PhiloxBlock hash = philox({static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32), 0, 0x666F726BU},
                                  {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  return Generator(hash[0] | static_cast<uint64_t>(hash[1]) << 32);
}

uint32_t Generator::next() {
  StepGraph::object("draws random numbers on the host");
  return philox_word(seed_, offset_++);
}

// Lemire, "Fast random integer generation in an interval", 2019: the upper half of x * bound; x is drawn again if the
// lower half is one of the few that would bias the result.
int64_t Generator::below(int64_t bound) {
  if (bound <= 0) fail("below: bound {} must be positive", bound);
  if (bound <= int64_t{1} << 32) {
    const auto range = static_cast<uint64_t>(bound);
    const uint64_t unfair = (uint64_t{1} << 32) % range;
    for (;;) {
      const uint64_t product = next() * range;
      if ((product & 0xFFFFFFFFU) >= unfair) return static_cast<int64_t>(product >> 32);
    }
  }
  const auto range = static_cast<uint64_t>(bound);
  const uint64_t unfair = (0 - range) % range;
  for (;;) {
    const uint64_t low = next();
    const auto product = static_cast<uint128>(low | static_cast<uint64_t>(next()) << 32) * range;
    if (static_cast<uint64_t>(product) >= unfair) return static_cast<int64_t>(product >> 64);
  }
}

double Generator::uniform() {
  const uint32_t x = next();
  return uniform_from(x, next());
}

Tensor uniform(const Shape& shape, Generator& generator, double low, double high, DType dtype, Device device) {
  require_floating(dtype, "uniform");
  if (!(low <= high) || !std::isfinite(high - low)) fail("uniform: ({}, {}] is no finite interval", low, high);
  const Tensor result = Tensor::empty(shape, dtype, device);
  const Generator place = generator.reserve(words_for(result.size(), dtype));
  uniform_kernel(device, result.raw(), result.size(), dtype, place, low, high);
  return result;
}

Tensor normal(const Shape& shape, Generator& generator, double mean, double deviation, DType dtype, Device device) {
  require_floating(dtype, "normal");
  if (!(deviation >= 0)) fail("normal: deviation {} must not be negative", deviation);
  const Tensor result = Tensor::empty(shape, dtype, device);
  const Generator place = generator.reserve(words_for(result.size(), dtype));
  normal_kernel(device, result.raw(), result.size(), dtype, place, mean, deviation);
  return result;
}

Tensor bernoulli(const Shape& shape, double probability, Generator& generator, DType dtype, Device device) {
  if (!(probability >= 0 && probability <= 1)) fail("bernoulli: probability {} lies outside [0, 1]", probability);
  const Tensor result = Tensor::empty(shape, dtype, device);
  const Generator place = generator.reserve(static_cast<uint64_t>(result.size()));
  const auto threshold = static_cast<uint64_t>(std::ceil(probability * 0x1p32));
  bernoulli_kernel(device, result.raw(), result.size(), dtype, place, threshold);
  return result;
}

Tensor integers(const Shape& shape, int64_t low, int64_t high, Generator& generator, Device device) {
  if (low >= high) fail("integers: [{}, {}) is empty", low, high);
  const Tensor result = Tensor::empty(shape, DType::i64, device);
  const Generator place = generator.reserve(2 * static_cast<uint64_t>(result.size()));
  integers_kernel(device, result.data<int64_t>(), result.size(), place, low,
                  static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  return result;
}

Tensor permutation(int64_t count, Generator& generator, Device device) {
  if (count < 0) fail("permutation: count {} is negative", count);
  const Tensor order = Tensor::arange(count);
  auto* values = order.data<int64_t>();
  for (int64_t i = count - 1; i > 0; --i) std::swap(values[i], values[generator.below(i + 1)]);
  return order.to(device);
}

}  // namespace bochner
