// Loops over the elements of broadcast, strided operands, each with a function object R operator()(A ...).
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "engine/cuda/parts/launch.h"
#include "engine/loop.h"

namespace bochner::cuda {

/// n / d and n % d for 0 <= n < 2^31 by a multiplication (Granlund and Montgomery, 1994).
struct Divider {
  uint32_t divisor = 1, magic = 1, shift = 0;

  Divider() = default;
  explicit Divider(int64_t d) : divisor(static_cast<uint32_t>(d)) {
    shift = static_cast<uint32_t>(std::bit_width(divisor - 1));
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
  BOCHNER_DEVICE uint32_t quotient(uint32_t n) const {
    return (static_cast<uint32_t>((static_cast<uint64_t>(n) * magic) >> 32) + n) >> shift;
  }
};

/// n elements, moved at once if they are aligned.
template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Vector {
  T at[n];
  BOCHNER_DEVICE Vector& operator+=(const Vector& other) {
#pragma unroll
    for (int j = 0; j < n; ++j) at[j] += other.at[j];
    return *this;
  }
};
template <class T>
using Four = Vector<T, 4>;
template <class T>
bool aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % alignof(Four<T>) == 0;
}
template <int n, class T>
BOCHNER_DEVICE Vector<T, n> load(const T* from) {
  return *reinterpret_cast<const Vector<T, n>*>(from);
}
template <class T, int n>
BOCHNER_DEVICE void store(T* to, const Vector<T, n>& value) {
  *reinterpret_cast<Vector<T, n>*>(to) = value;
}
/// The same, converted to T, or from it.
template <class T, int n, class S>
BOCHNER_DEVICE Vector<T, n> load_as(const S* from) {
  const Vector<S, n> value = load<n>(from);
  Vector<T, n> result;
#pragma unroll
  for (int j = 0; j < n; ++j) result.at[j] = static_cast<T>(value.at[j]);
  return result;
}
template <class T, int n, class S>
BOCHNER_DEVICE void store_from(S* to, const Vector<T, n>& value) {
  Vector<S, n> result;
#pragma unroll
  for (int j = 0; j < n; ++j) result.at[j] = static_cast<S>(value.at[j]);
  store(to, result);
}
template <class T>
BOCHNER_DEVICE Four<T> load4(const T* from) {
  return load<4>(from);
}
template <class T>
BOCHNER_DEVICE void store4(T* to, const Four<T>& value) {
  store(to, value);
}
template <class T, class S>
BOCHNER_DEVICE Four<T> load4_as(const S* from) {
  return load_as<T, 4>(from);
}
template <class T, class S>
BOCHNER_DEVICE void store4_from(S* to, const Four<T>& value) {
  store_from(to, value);
}

/// A piece of a Loop with fewer than 2^31 elements, its axes innermost first.
template <int N>
struct Strides {
  int rank;
  Divider sizes[Dims::kMaxRank];
  int64_t strides[N][Dims::kMaxRank];

  struct Offsets {
    int64_t at[N];
  };
  BOCHNER_DEVICE Offsets offsets(uint32_t index) const {
    Offsets result{};
    for (int axis = 0; axis + 1 < rank; ++axis) {
      const uint32_t outer = sizes[axis].quotient(index);
      const uint32_t position = index - outer * sizes[axis].divisor;
      index = outer;
      for (int i = 0; i < N; ++i) result.at[i] += position * strides[i][axis];
    }
    for (int i = 0; i < N; ++i) result.at[i] += index * strides[i][rank - 1];
    return result;
  }
};

/// Whether an index of a strided loop stands for four elements that are neighbours along its innermost axis.
template <int N>
struct Fours {
  bool any = false;
  bool moves[N] = {};  ///< whether they are neighbours in that operand too; otherwise they are a single element there

  template <class T>
  BOCHNER_DEVICE Four<T> read(int operand, const T* at) const {
    return moves[operand] ? load4(at) : Four<T>{{*at, *at, *at, *at}};
  }
};

/// Turns four elements of a loop into one if its innermost axis consists of whole fours, along which operand 0 is
/// contiguous and every other operand is contiguous or has one element. `bytes` are the operands' element sizes.
template <int N>
Fours<N> in_fours(Loop& loop, const size_t (&bytes)[N]) {
  const auto innermost = static_cast<size_t>(loop.rank - 1);
  if (loop.sizes[innermost] % 4 != 0 || loop.strides[0][innermost] != 1) return {};
  Fours<N> fours{true};
  for (size_t i = 0; i < N; ++i) {
    fours.moves[i] = loop.strides[i][innermost] == 1;
    if (!fours.moves[i] && loop.strides[i][innermost] != 0) return {};
    if (!fours.moves[i]) continue;
    if (bytes[i] > 8) return {};  // a thread already moves 16 bytes or more
    if (reinterpret_cast<uintptr_t>(loop.data[i]) % std::min<size_t>(4 * bytes[i], 16) != 0) return {};
    for (size_t axis = 0; axis < innermost; ++axis) {
      if (loop.strides[i][axis] % 4 != 0) return {};
    }
  }
  for (size_t i = 0; i < N; ++i) loop.strides[i][innermost] *= 4;
  loop.sizes[innermost] /= 4;
  loop.size /= 4;
  return fours;
}

/// body(piece of the loop, its strides) for pieces of fewer than 2^31 elements, cut along the outermost axes.
template <int N, class Body>
void for_each_piece(const Loop& loop, const Body& body, const size_t (&bytes)[N]) {
  if (loop.size == 0) return;
  if (loop.size > INT32_MAX) {
    const auto axis = static_cast<size_t>(
        std::find_if(loop.sizes.begin(), loop.sizes.end(), [](int64_t n) { return n > 1; }) - loop.sizes.begin());
    const int64_t half = loop.sizes[axis] / 2;
    Loop first = loop;
    Loop second = loop;
    first.sizes[axis] = half;
    second.sizes[axis] = loop.sizes[axis] - half;
    first.size = loop.size / loop.sizes[axis] * first.sizes[axis];
    second.size = loop.size - first.size;
    for (size_t i = 0; i < N; ++i) {
      second.data[i] = static_cast<char*>(loop.data[i]) + half * loop.strides[i][axis] * static_cast<int64_t>(bytes[i]);
    }
    for_each_piece<N>(first, body, bytes);
    for_each_piece<N>(second, body, bytes);
    return;
  }
  Strides<N> strides{};
  strides.rank = loop.rank;
  for (int axis = 0; axis < loop.rank; ++axis) {
    const auto from = static_cast<size_t>(loop.rank - 1 - axis);
    strides.sizes[axis] = Divider(loop.sizes[from]);
    for (size_t i = 0; i < N; ++i) strides.strides[i][axis] = loop.strides[i][from];
  }
  body(loop, strides);
}

template <int N>
bool is_linear(const Loop& loop) {
  bool linear = loop.rank == 1;
  for (size_t i = 0; i < N; ++i) linear = linear && loop.strides[i][0] == 1;
  return linear;
}

// r_i = f(a_i ...) for contiguous operands: thread t handles elements 4t ... 4t + 3.

template <class F, class R>
struct Linear0 {
  F f;
  int64_t count;
  bool vectors;
  R* r;
  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = 4 * t;
    if (vectors && i + 4 <= count) {
      store4(r + i, Four<R>{{f(), f(), f(), f()}});
    } else {
      for (int64_t j = i; j < count && j < i + 4; ++j) r[j] = f();
    }
  }
};
template <class F, class R, class A>
struct Linear1 {
  F f;
  int64_t count;
  bool vectors;
  R* r;
  const A* a;
  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = 4 * t;
    if (vectors && i + 4 <= count) {
      const Four<A> x = load4(a + i);
      store4(r + i, Four<R>{{f(x.at[0]), f(x.at[1]), f(x.at[2]), f(x.at[3])}});
    } else {
      for (int64_t j = i; j < count && j < i + 4; ++j) r[j] = f(a[j]);
    }
  }
};
template <class F, class R, class A, class B>
struct Linear2 {
  F f;
  int64_t count;
  bool vectors;
  R* r;
  const A* a;
  const B* b;
  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = 4 * t;
    if (vectors && i + 4 <= count) {
      const Four<A> x = load4(a + i);
      const Four<B> y = load4(b + i);
      store4(r + i, Four<R>{{f(x.at[0], y.at[0]), f(x.at[1], y.at[1]), f(x.at[2], y.at[2]), f(x.at[3], y.at[3])}});
    } else {
      for (int64_t j = i; j < count && j < i + 4; ++j) r[j] = f(a[j], b[j]);
    }
  }
};
template <class F, class R, class A, class B, class C>
struct Linear3 {
  F f;
  int64_t count;
  bool vectors;
  R* r;
  const A* a;
  const B* b;
  const C* c;
  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = 4 * t;
    if (vectors && i + 4 <= count) {
      const Four<A> x = load4(a + i);
      const Four<B> y = load4(b + i);
      const Four<C> z = load4(c + i);
      store4(r + i, Four<R>{{f(x.at[0], y.at[0], z.at[0]), f(x.at[1], y.at[1], z.at[1]), f(x.at[2], y.at[2], z.at[2]),
                             f(x.at[3], y.at[3], z.at[3])}});
    } else {
      for (int64_t j = i; j < count && j < i + 4; ++j) r[j] = f(a[j], b[j], c[j]);
    }
  }
};

// The same for strided operands, with one or four elements per thread.

template <class F, class R>
struct Strided0 {
  F f;
  Strides<1> strides;
  Fours<1> fours;
  R* r;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const auto offsets = strides.offsets(static_cast<uint32_t>(i));
    R* const to = r + offsets.at[0];
    if (!fours.any) {
      *to = f();
      return;
    }
    store4(to, Four<R>{{f(), f(), f(), f()}});
  }
};
template <class F, class R, class A>
struct Strided1 {
  F f;
  Strides<2> strides;
  Fours<2> fours;
  R* r;
  const A* a;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const auto offsets = strides.offsets(static_cast<uint32_t>(i));
    R* const to = r + offsets.at[0];
    if (!fours.any) {
      *to = f(a[offsets.at[1]]);
      return;
    }
    const Four<A> x = fours.read(1, a + offsets.at[1]);
    store4(to, Four<R>{{f(x.at[0]), f(x.at[1]), f(x.at[2]), f(x.at[3])}});
  }
};
template <class F, class R, class A, class B>
struct Strided2 {
  F f;
  Strides<3> strides;
  Fours<3> fours;
  R* r;
  const A* a;
  const B* b;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const auto offsets = strides.offsets(static_cast<uint32_t>(i));
    R* const to = r + offsets.at[0];
    if (!fours.any) {
      *to = f(a[offsets.at[1]], b[offsets.at[2]]);
      return;
    }
    const Four<A> x = fours.read(1, a + offsets.at[1]);
    const Four<B> y = fours.read(2, b + offsets.at[2]);
    store4(to, Four<R>{{f(x.at[0], y.at[0]), f(x.at[1], y.at[1]), f(x.at[2], y.at[2]), f(x.at[3], y.at[3])}});
  }
};
template <class F, class R, class A, class B, class C>
struct Strided3 {
  F f;
  Strides<4> strides;
  Fours<4> fours;
  R* r;
  const A* a;
  const B* b;
  const C* c;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const auto offsets = strides.offsets(static_cast<uint32_t>(i));
    R* const to = r + offsets.at[0];
    if (!fours.any) {
      *to = f(a[offsets.at[1]], b[offsets.at[2]], c[offsets.at[3]]);
      return;
    }
    const Four<A> x = fours.read(1, a + offsets.at[1]);
    const Four<B> y = fours.read(2, b + offsets.at[2]);
    const Four<C> z = fours.read(3, c + offsets.at[3]);
    store4(to, Four<R>{{f(x.at[0], y.at[0], z.at[0]), f(x.at[1], y.at[1], z.at[1]), f(x.at[2], y.at[2], z.at[2]),
                        f(x.at[3], y.at[3], z.at[3])}});
  }
};

/// r = f(), f(a), f(a, b) or f(a, b, c); operands are in the order of the loop.
template <class R, class F>
void elementwise0(const Loop& loop, const F& f) {
  if (is_linear<1>(loop)) {
    R* r = loop.at<R>(0);
    launch_threads(ceil_div(loop.size, 4), Linear0<F, R>{f, loop.size, aligned(r), r});
    return;
  }
  constexpr size_t kBytes[] = {sizeof(R)};
  Loop units = loop;
  const auto fours = in_fours<1>(units, kBytes);
  for_each_piece<1>(
      units,
      [&](const Loop& piece, const Strides<1>& strides) {
        launch_threads(piece.size, Strided0<F, R>{f, strides, fours, piece.at<R>(0)});
      },
      kBytes);
}
template <class R, class A, class F>
void elementwise1(const Loop& loop, const F& f) {
  if (is_linear<2>(loop)) {
    R* r = loop.at<R>(0);
    const A* a = loop.at<A>(1);
    launch_threads(ceil_div(loop.size, 4), Linear1<F, R, A>{f, loop.size, aligned(r) && aligned(a), r, a});
    return;
  }
  constexpr size_t kBytes[] = {sizeof(R), sizeof(A)};
  Loop units = loop;
  const auto fours = in_fours<2>(units, kBytes);
  for_each_piece<2>(
      units,
      [&](const Loop& piece, const Strides<2>& strides) {
        launch_threads(piece.size, Strided1<F, R, A>{f, strides, fours, piece.at<R>(0), piece.at<A>(1)});
      },
      kBytes);
}
template <class R, class A, class B, class F>
void elementwise2(const Loop& loop, const F& f) {
  if (is_linear<3>(loop)) {
    R* r = loop.at<R>(0);
    const A* a = loop.at<A>(1);
    const B* b = loop.at<B>(2);
    launch_threads(ceil_div(loop.size, 4),
                   Linear2<F, R, A, B>{f, loop.size, aligned(r) && aligned(a) && aligned(b), r, a, b});
    return;
  }
  constexpr size_t kBytes[] = {sizeof(R), sizeof(A), sizeof(B)};
  Loop units = loop;
  const auto fours = in_fours<3>(units, kBytes);
  for_each_piece<3>(
      units,
      [&](const Loop& piece, const Strides<3>& strides) {
        launch_threads(piece.size,
                       Strided2<F, R, A, B>{f, strides, fours, piece.at<R>(0), piece.at<A>(1), piece.at<B>(2)});
      },
      kBytes);
}
template <class R, class A, class B, class C, class F>
void elementwise3(const Loop& loop, const F& f) {
  if (is_linear<4>(loop)) {
    R* r = loop.at<R>(0);
    const A* a = loop.at<A>(1);
    const B* b = loop.at<B>(2);
    const C* c = loop.at<C>(3);
    launch_threads(
        ceil_div(loop.size, 4),
        Linear3<F, R, A, B, C>{f, loop.size, aligned(r) && aligned(a) && aligned(b) && aligned(c), r, a, b, c});
    return;
  }
  constexpr size_t kBytes[] = {sizeof(R), sizeof(A), sizeof(B), sizeof(C)};
  Loop units = loop;
  const auto fours = in_fours<4>(units, kBytes);
  for_each_piece<4>(
      units,
      [&](const Loop& piece, const Strides<4>& strides) {
        launch_threads(piece.size, Strided3<F, R, A, B, C>{f, strides, fours, piece.at<R>(0), piece.at<A>(1),
                                                           piece.at<B>(2), piece.at<C>(3)});
      },
      kBytes);
}

}  // namespace bochner::cuda
