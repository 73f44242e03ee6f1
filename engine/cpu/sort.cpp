#include "engine/ops/sort.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}

/// An unsigned integer with the order of x: -0 equals +0, and all NaN are equal and above infinity.
template <class T>
Bits<T> key_of(T x) {
  constexpr Bits<T> kSign = Bits<T>{1} << (8 * sizeof(T) - 1);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Bits<T>>(x) ^ kSign;
  } else {
    if (is_nan(x)) return ~Bits<T>{0};
    const auto bits = math::bits_as<Bits<T>>(x + T(0));
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
}

/// An element's key, which ascends in the wanted order, and its position, which decides between equal keys.
template <class Key>
struct Entry {
  Key key = 0;
  Key place = 0;
  Entry() = default;
  Entry(Key k, int64_t p) : key(k), place(static_cast<Key>(p)) {}
  bool operator<(const Entry& other) const { return key != other.key ? key < other.key : place < other.place; }
  int64_t at() const { return static_cast<int64_t>(place); }
};

/// Both in one word, for a single comparison.
template <>
struct Entry<uint32_t> {
  uint64_t word = 0;
  Entry() = default;
  Entry(uint32_t key, int64_t place) : word(static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(place)) {}
  bool operator<(const Entry& other) const { return word < other.word; }
  int64_t at() const { return static_cast<int64_t>(word & 0xFFFFFFFFU); }
};

int64_t grain(int64_t columns) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, columns)); }

template <class T>
void sort_rows(int64_t rows, int64_t columns, int64_t k, bool descending, const T* x, T* values, int64_t* indices) {
  if (sizeof(T) == 4 && columns > std::numeric_limits<uint32_t>::max()) {
    fail("sort: an axis of {} elements is longer than 2^32 - 1, the most for this type", columns);
  }
  parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
    std::vector<Entry<Bits<T>>> entries(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x + row * columns;
      for (int64_t i = 0; i < columns; ++i) {
        const Bits<T> key = key_of(from[i]);
        entries[static_cast<size_t>(i)] = {descending ? static_cast<Bits<T>>(~key) : key, i};
      }
      const auto kept = entries.begin() + k;
      if (k < columns) std::nth_element(entries.begin(), kept, entries.end());
      std::sort(entries.begin(), kept);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t place = entries[static_cast<size_t>(i)].at();
        values[row * k + i] = from[place];
        indices[row * k + i] = place;
      }
    }
  });
}

/// The first position of the largest or smallest element.
template <class T, bool largest>
int64_t extreme(const T* x, int64_t count) {
  T best = x[0];
  bool has_nan = false;
  for (int64_t i = 0; i < count; ++i) {
    has_nan |= is_nan(x[i]);
    best = (largest ? x[i] > best : x[i] < best) ? x[i] : best;
  }
  int64_t place = 0;
  if (!has_nan) {
    while (!(x[place] == best)) ++place;
  } else if (largest) {
    while (!is_nan(x[place])) ++place;
  } else {
    for (int64_t i = 1; i < count; ++i) {
      if (key_of(x[i]) < key_of(x[place])) place = i;
    }
  }
  return place;
}

}  // namespace

void sort(int64_t rows, int64_t columns, int64_t k, bool descending, const Tensor& x, const Tensor& values,
          const Tensor& indices) {
  visit_numeric(x.dtype(), "sort", [&]<class T>(TypeTag<T>) {
    sort_rows(rows, columns, k, descending, x.data<T>(), values.data<T>(), indices.data<int64_t>());
  });
}

void argmax(int64_t rows, int64_t columns, bool largest, const Tensor& x, const Tensor& places) {
  visit_numeric(x.dtype(), "argmax", [&]<class T>(TypeTag<T>) {
    const T* from = x.data<T>();
    auto* to = places.data<int64_t>();
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* data = from + row * columns;
        to[row] = largest ? extreme<T, true>(data, columns) : extreme<T, false>(data, columns);
      }
    });
  });
}

}  // namespace bochner::cpu
