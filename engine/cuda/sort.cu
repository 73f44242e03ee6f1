#include "engine/ops/sort.h"

#include <limits>
#include <type_traits>

#include "engine/cuda/parts/sort_words.h"
#include "engine/math.h"
#include "engine/tensor.h"

namespace bochner::cuda {
namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

/// An unsigned integer with the order of x; -0 equals +0, and all NaN are equal and above infinity.
template <class T>
BOCHNER_DEVICE Bits<T> key_of(T x) {
  constexpr Bits<T> kSign = Bits<T>{1} << (8 * sizeof(T) - 1);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Bits<T>>(x) ^ kSign;
  } else {
    if (x != x) return ~Bits<T>{0};
    const auto bits = math::bits_as<Bits<T>>(x + T(0));
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
}

/// A key, and the position, which decides between equal keys; sorts last if there is no element.
struct Pair {
  uint64_t key, place;
  BOCHNER_DEVICE bool operator<(const Pair& other) const {
    return key != other.key ? key < other.key : place < other.place;
  }
};
template <class T>
using Entry = std::conditional_t<sizeof(T) == 4, uint64_t, Pair>;

template <class T>
struct MakeEntries {
  int64_t columns, padded;
  bool descending;
  const T* x;
  Entry<T>* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t place = i % padded;
    const bool there = place < columns;
    const Bits<T> ascending = there ? key_of(x[i / padded * columns + place]) : Bits<T>{0};
    const Bits<T> key = descending ? ~ascending : ascending;
    const auto p = static_cast<uint64_t>(place);
    if constexpr (sizeof(T) == 4) {
      to[i] = there ? static_cast<uint64_t>(key) << 32 | p : ~uint64_t{0};
    } else {
      to[i] = there ? Pair{key, p} : Pair{~uint64_t{0}, ~uint64_t{0}};
    }
  }
};

template <class T>
struct TakeSorted {
  int64_t columns, padded, k;
  const T* x;
  const Entry<T>* entries;
  T* values;
  int64_t* indices;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / k;
    const Entry<T> entry = entries[row * padded + i % k];
    int64_t place = 0;
    if constexpr (sizeof(T) == 4) {
      place = static_cast<int64_t>(entry & 0xFFFFFFFFU);
    } else {
      place = static_cast<int64_t>(entry.place);
    }
    values[i] = x[row * columns + place];
    indices[i] = place;
  }
};

struct Smaller {
  template <class T>
  BOCHNER_DEVICE T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

template <class T>
struct ArgExtreme {
  int64_t columns;
  bool largest;
  const T* x;
  int64_t* places;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const T* from = x + team.index() * columns;
    Bits<T> best = 0;
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      const Bits<T> key = largest ? key_of(from[i]) : static_cast<Bits<T>>(~key_of(from[i]));
      best = key > best ? key : best;
    }
    best = team.max(best);
    int64_t place = columns;
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      const Bits<T> key = largest ? key_of(from[i]) : static_cast<Bits<T>>(~key_of(from[i]));
      if (key == best && i < place) place = i;
    }
    place = team.reduce(place, Smaller{});
    if (team.rank() == 0) places[team.index()] = place;
  }
};

}  // namespace

void sort(int64_t rows, int64_t columns, int64_t k, bool descending, const Tensor& x, const Tensor& values,
          const Tensor& indices) {
  if (columns >= int64_t{1} << 31)
    fail("sort: an axis of {} elements is longer than 2^31 - 1, the most on a card", columns);
  visit_numeric(x.dtype(), "sort", [&]<class T>(TypeTag<T>) {
    const auto padded = next_power_of_two(columns);
    const Tensor memory =
        Tensor::empty({rows * padded * static_cast<int64_t>(sizeof(Entry<T>) / 8)}, DType::i64, x.device());
    auto* entries = static_cast<Entry<T>*>(memory.raw());
    launch_threads(rows * padded, MakeEntries<T>{columns, padded, descending, x.data<T>(), entries});
    sort_rows_of_entries(rows, padded, entries);
    launch_threads(rows * k,
                   TakeSorted<T>{columns, padded, k, x.data<T>(), entries, values.data<T>(), indices.data<int64_t>()});
  });
}

void argmax(int64_t rows, int64_t columns, bool largest, const Tensor& x, const Tensor& places) {
  visit_numeric(x.dtype(), "argmax", [&]<class T>(TypeTag<T>) {
    launch_rows(rows, columns, ArgExtreme<T>{columns, largest, x.data<T>(), places.data<int64_t>()});
  });
}

}  // namespace bochner::cuda
