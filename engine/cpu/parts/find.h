// The first element with some property, found in parallel.
#pragma once

#include <atomic>

#include "engine/parallel.h"

namespace bochner::cpu {

/// The lowest i in [0, count) with is(i), or count. It is fastest if there is none, since that search is vectorised.
template <class Predicate>
int64_t first_where(int64_t count, const Predicate& is) {
  constexpr int64_t kGrain = 16384;
  std::atomic<int64_t> first = count;
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    bool any = false;
    for (int64_t i = begin; i < end; ++i) any |= is(i);
    if (!any) return;
    while (!is(begin)) ++begin;
    int64_t known = first;
    while (begin < known && !first.compare_exchange_weak(known, begin)) {
    }
  });
  return first;
}

}  // namespace bochner::cpu
