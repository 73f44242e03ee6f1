// Bitonic sort (Batcher, 1968) of rows of entries in device memory: a fixed network, so the result and the time depend
// only on the sizes.
#pragma once

#include <algorithm>

#include "engine/cuda/parts/launch.h"

namespace bochner::cuda {

/// The number of entries that a block sorts in shared memory.
inline constexpr int64_t kSortedInBlock = 2048;

template <class Entry>
BOCHNER_DEVICE inline void exchange(Entry* x, int64_t i, int64_t j, bool ascending) {
  const Entry a = x[i];
  const Entry b = x[j];
  if ((b < a) == ascending) {
    x[i] = b;
    x[j] = a;
  }
}

/// Steps of the network within pieces of kSortedInBlock entries: all with k in [first_k, last_k], each with the
/// distances below the size of a piece.
template <class Entry>
struct SortWithinBlocks {
  int64_t padded, total, first_k, last_k;
  Entry* entries;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    Entry* x = team.template shared<Entry>();
    const int64_t first = team.index() * kSortedInBlock;
    const int64_t count = first + kSortedInBlock < total ? kSortedInBlock : total - first;
    for (int64_t i = team.rank(); i < count; i += team.size()) x[i] = entries[first + i];
    team.sync();
    for (int64_t k = first_k; k <= last_k; k *= 2) {
      for (int64_t j = k / 2 < kSortedInBlock / 2 ? k / 2 : kSortedInBlock / 2; j > 0; j /= 2) {
        for (int64_t t = team.rank(); t < count / 2; t += team.size()) {
          const int64_t i = ((t & ~(j - 1)) << 1) | (t & (j - 1));
          exchange(x, i, i + j, (((first + i) & (padded - 1)) & k) == 0);
        }
        team.sync();
      }
    }
    for (int64_t i = team.rank(); i < count; i += team.size()) entries[first + i] = x[i];
  }
};

/// One step over a distance j of at least kSortedInBlock.
template <class Entry>
struct SortStep {
  int64_t padded, k, j;
  Entry* entries;
  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = ((t & ~(j - 1)) << 1) | (t & (j - 1));
    exchange(entries, i, i + j, ((i & (padded - 1)) & k) == 0);
  }
};

/// Sorts each of `rows` rows of `padded` entries, a power of two, in ascending order.
template <class Entry>
void sort_rows_of_entries(int64_t rows, int64_t padded, Entry* entries) {
  const int64_t total = rows * padded;
  const int64_t blocks = ceil_div(total, kSortedInBlock);
  const size_t shared = kSortedInBlock * sizeof(Entry);
  launch_blocks<512>(blocks, shared,
                     SortWithinBlocks<Entry>{padded, total, 2, std::min(padded, kSortedInBlock), entries});
  for (int64_t k = 2 * kSortedInBlock; k <= padded; k *= 2) {
    for (int64_t j = k / 2; j >= kSortedInBlock; j /= 2)
      launch_threads(total / 2, SortStep<Entry>{padded, k, j, entries});
    launch_blocks<512>(blocks, shared, SortWithinBlocks<Entry>{padded, total, k, k, entries});
  }
}

}  // namespace bochner::cuda
