// A tile of numbers that is computed as a factor of products and written where they read it: in bf16, at its place in
// the packed factors, which then need no separate packing.
//
//   WrittenTile<S> dS(rows, plain);
//   const auto place = dS.begin(Sides::both, rows, columns);
//   place.put(row, column, first, second, two);          // a vector from `column` on, of row `row`, which is even, and
//                                                        // of the next where `two`; otherwise second is 0
//   multiply<S>(rows, n, columns, dS.left(), ...);       // dS as A
//   multiply<S>(n, columns, rows, ..., dS.right(), ...); // dS as B
#pragma once

#include "engine/cpu/attention/attention_tile.h"
#include "engine/cpu/bf16/factors.h"

namespace bochner::cpu {

/// Which factors of products a tile is.
enum class Sides : uint8_t { none, left, right, both };

/// f32 and f64 are read as A and B in place.
template <class S>
class WrittenTile {
 public:
  /// `plain` (rows x kTile) is where the tile is written.
  WrittenTile(int64_t, S* plain) : place_{plain} {}

  struct Place {
    S* plain;

    void put(int64_t row, int64_t column, const Vector<S>& first, const Vector<S>& second, bool two) const {
      store(plain + row * kTile + column, first);
      if (two) store(plain + (row + 1) * kTile + column, second);
    }
  };
  /// For a tile of this size; what was written before is forgotten.
  Place begin(Sides, int64_t, int64_t, bool = false) { return place_; }
  /// For a tile that is already in `plain`.
  void pack(Sides, int64_t, int64_t) {}
  Left<S> left() const { return {place_.plain, {kTile, 1}}; }
  Right<S> right() const { return {place_.plain, kTile}; }

 private:
  Place place_;
};

template <>
class WrittenTile<bfloat16> {
 public:
  WrittenTile(int64_t rows, float* plain)
      : plain_(plain), left_(packed_size(rows, kTile)), right_(packed_size(kTile, rows)) {}

  struct Place {
    float* plain;
    bfloat16 *left, *right;          ///< null: not wanted, as plain
    int64_t left_row, right_column;  ///< elements of a row of tiles of A, and of a column of tiles of B

    void put(int64_t row, int64_t column, const Vector<float>& first, const Vector<float>& second, bool two) const {
      if (plain != nullptr) {
        store(plain + row * kTile + column, first);
        if (two) store(plain + (row + 1) * kTile + column, second);
      }
      if (left != nullptr) {
        bfloat16* const to = left + row / kBf16Tile * left_row + row % kBf16Tile * kBf16Depth +
                             column / kBf16Depth * kTileSize + column % kBf16Depth;
        store(to, first);
        store(to + kBf16Depth, second);
      }
      if (right != nullptr) {
        bfloat16* const to =
            right + column / kBf16Tile * right_column + column % kBf16Tile * 2 + row * kBf16Tile;  // tiles follow on
        store(reinterpret_cast<uint32_t*>(to), pairs_of(first, second));
      }
    }
  };
  /// Also in `plain`, if `keeps`.
  Place begin(Sides sides, int64_t rows, int64_t columns, bool keeps = false) {
    bfloat16* const left = sides == Sides::left || sides == Sides::both ? static_cast<bfloat16*>(left_) : nullptr;
    bfloat16* const right = sides == Sides::right || sides == Sides::both ? static_cast<bfloat16*>(right_) : nullptr;
    // Products need zeros at the end of the depth.
    if (left != nullptr && columns % kBf16Depth != 0) std::fill_n(left, packed_size(rows, columns), bfloat16());
    if (right != nullptr && rows % kBf16Depth != 0) std::fill_n(right, packed_size(columns, rows), bfloat16());
    return {keeps ? plain_ : nullptr, left, right, ceil_div(columns, kBf16Depth) * kTileSize,
            ceil_div(rows, kBf16Depth) * kTileSize};
  }
  void pack(Sides sides, int64_t rows, int64_t columns) {
    if (sides == Sides::left || sides == Sides::both) pack_left<float>(rows, columns, plain_, {kTile, 1}, left_);
    if (sides == Sides::right || sides == Sides::both) pack_right<float>(rows, columns, plain_, {kTile, 1}, right_);
  }
  Left<bfloat16> left() const { return {left_}; }
  Right<bfloat16> right() const { return {right_}; }

 private:
  static constexpr int64_t kTileSize = kBf16Tile * kBf16Depth;
  float* plain_;
  Buffer<bfloat16> left_, right_;
};

}  // namespace bochner::cpu
