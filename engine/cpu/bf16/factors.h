// Products of tiles in kernels for f32, f64 and bf16 alike: S is the type of the activations in memory, T that of the
// sums. For f32 and f64, factors are read in place (tile_product.h); for bf16 they are first rounded and packed, once
// for all products in which they are used.
//
//   Factor<S> n(64, dim), w(outputs, dim);              // room for the packed ones
//   const Left<S> left = n.left(rows, dim, x, {stride, 1});
//   multiply<S>(rows, outputs, dim, left, w.right(dim, outputs, wt, {outputs, 1}), y, outputs);
#pragma once

#include "engine/cpu/bf16/pack.h"
#include "engine/cpu/parts/lanes.h"
#include "engine/tensor.h"

namespace bochner::cpu {

/// A (rows x depth) as products read it.
template <class S>
struct Left {
  const S* data;
  TileStrides strides;
};
template <>
struct Left<bfloat16> {
  const bfloat16* data;  ///< packed
};
/// B (depth x cols) as products read it.
template <class S>
struct Right {
  const S* data;
  int64_t stride;
};
template <>
struct Right<bfloat16> {
  const bfloat16* data;  ///< packed
};

/// Memory for a packed factor; f32 and f64 need none, as the factor is what it is made from.
template <class S>
class Factor {
 public:
  /// For at most `lines` rows of A or columns of B.
  Factor(int64_t lines, int64_t depth) {
    if constexpr (kPacks) memory_ = Tensor::empty({packed_size(lines, depth)}, DType::bf16);
  }
  /// Valid until the next call of either.
  template <class E>
  Left<S> left(int64_t rows, int64_t depth, const E* a, TileStrides strides) const {
    if constexpr (kPacks) {
      pack_left(rows, depth, a, strides, memory_.data<bfloat16>());
      return {memory_.data<bfloat16>()};
    } else {
      return {a, strides};
    }
  }
  /// B's columns are contiguous (strides.col = 1), except for bf16, which takes its transpose, too.
  template <class E>
  Right<S> right(int64_t depth, int64_t cols, const E* b, TileStrides strides) const {
    if constexpr (kPacks) {
      pack_right(depth, cols, b, strides, memory_.data<bfloat16>());
      return {memory_.data<bfloat16>()};
    } else {
      return {b, strides.row};
    }
  }

 private:
  static constexpr bool kPacks = std::is_same_v<S, bfloat16>;
  Tensor memory_;
};

/// Whether factors may be read in place in rows of `width` numbers: bf16 is packed anyway, and longer rows of other
/// types are better copied to `padded` ones (pack.h).
template <class S>
constexpr bool reads_in_place(int64_t width) {
  return std::is_same_v<S, bfloat16> || width * static_cast<int64_t>(sizeof(S)) <= 768;
}

/// C = A B, or C += A B if `accumulate`.
template <class S>
void multiply(int64_t rows, int64_t cols, int64_t depth, Left<S> a, Right<S> b, ComputeType<S>* c, int64_t ldc,
              bool accumulate = false) {
  if constexpr (std::is_same_v<S, bfloat16>) {
    bf16_product(rows, cols, depth, a.data, b.data, c, ldc, accumulate);
  } else {
    tile_product<S>(rows, cols, depth, a.data, a.strides, b.data, b.stride, c, ldc, accumulate);
  }
}

/// C = A B for factors that are used in no other product, with memory for both: `lines` rows and columns, and `depth`.
template <class S>
class TileProduct {
 public:
  using T = ComputeType<S>;
  TileProduct(int64_t lines, int64_t depth) : left_(lines, depth), right_(lines, depth) {}

  void operator()(int64_t rows, int64_t cols, int64_t depth, const T* a, TileStrides a_strides, const T* b, int64_t ldb,
                  T* c, int64_t ldc, bool accumulate = false) const {
    multiply<S>(rows, cols, depth, left_.left(rows, depth, a, a_strides), right_.right(depth, cols, b, {ldb, 1}), c,
                ldc, accumulate);
  }

 private:
  Factor<S> left_, right_;
};

/// to[i] = from[i], converted if necessary; does nothing if they are the same place.
template <class To, class From>
void move_row(int64_t count, const From* from, To* to) {
  if constexpr (std::is_same_v<To, From>) {
    if (from == to) return;
  }
  using T = ComputeType<To>;
  for_lanes<T>(count, [=]<class V>(TypeTag<V>, int64_t i) { store<V>(to + i, load<V>(from + i)); });
}

}  // namespace bochner::cpu
