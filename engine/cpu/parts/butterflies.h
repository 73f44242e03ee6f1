// Stages of the Walsh-Hadamard transform among registers.
#pragma once

namespace bochner::cpu {

/// x = H x: log2(radix) stages among `radix` vectors, a power of two up to 16.
template <int radix, class V>
inline void butterflies(V (&x)[radix]) {
#pragma GCC unroll 4
  for (int h = 1; h < radix; h *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < radix; ++i) {
      if ((i & h) != 0) continue;
      const V sum = x[i] + x[i + h];
      x[i + h] = x[i] - x[i + h];
      x[i] = sum;
    }
  }
}

}  // namespace bochner::cpu
