#pragma once

#include "engine/dtype.h"
#include "engine/random.h"

namespace bochner::cuda {

// Each fills `count` contiguous elements from the words at `place` on. f32 takes one word an element, f64 and i64 two.

void uniform(void* to, int64_t count, DType dtype, Generator place, double low, double high);
void normal(void* to, int64_t count, DType dtype, Generator place, double mean, double deviation);
/// Any type; 1 where word i < threshold, which is at most 2^32.
void bernoulli(void* to, int64_t count, DType dtype, Generator place, uint64_t threshold);
/// i64: low + floor(x * range / 2^64) with x the two words, lower first.
void integers(int64_t* to, int64_t count, Generator place, int64_t low, uint64_t range);

}  // namespace bochner::cuda
