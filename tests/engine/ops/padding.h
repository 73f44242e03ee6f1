// Key masks for attention tests.
#pragma once

#include "engine/ops/copy.h"
#include "engine/random.h"

namespace bochner {

/// (b, keys): example 0 has holes anywhere, example 1 ends early, the others have no padding.
inline Tensor padding(int64_t b, int64_t keys, uint64_t seed) {
  Generator generator(seed);
  const Tensor mask = bernoulli({b, keys}, 0.6, generator, DType::boolean);
  for (int64_t i = 1; i < b; ++i) {
    fill(mask.select(0, i), 1);
    if (i == 1) fill(mask.select(0, i).slice(0, keys - keys / 3, keys), 0);
  }
  return mask;
}

}  // namespace bochner
