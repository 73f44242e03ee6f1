// A tile of numbers that is computed only to be a factor of products, written where they read it: in bf16 at its place
// in the packed factors, which then need no packing of their own.
//
//   WrittenTile<S, Sides::both> dS(plain);               // plain: kTile x kTile, where f32 and f64 are written
//   const auto place = dS.begin(rows, columns);
//   place.put(row, column, first, second);               // of rows `row` (even) and row + 1, a vector from `column` on
//   multiply<S>(rows, n, columns, dS.left(), ...);       // dS as A
//   multiply<S>(n, columns, rows, ..., dS.right(), ...); // dS as B
#pragma once

#include "engine/cpu/attention/attention_tile.h"
#include "engine/cpu/bf16/factors.h"

namespace bochner::cpu {

/// Which factors of products a tile is written as.
enum class Sides : uint8_t { left, right, both };

template <class S, Sides sides>
class WrittenTile {
 public:
  /// `plain` has room for kTile x kTile numbers, and may be what the tile is computed from.
  explicit WrittenTile(S* plain) : place_{plain} {}

  struct Place {
    S* plain;

    void put(int64_t row, int64_t column, const Vector<S>& first, const Vector<S>& second) const {
      store(plain + row * kTile + column, first);
      store(plain + (row + 1) * kTile + column, second);
    }
  };
  /// For a tile of that size; what was written before is forgotten.
  Place begin(int64_t, int64_t) { return place_; }
  Left<S> left() const { return {place_.plain, {kTile, 1}}; }
  Right<S> right() const { return {place_.plain, kTile}; }

 private:
  Place place_;
};

template <Sides sides>
class WrittenTile<bfloat16, sides> {
 public:
  explicit WrittenTile(float*) : left_(kIsLeft ? kTile * kTile : 1), right_(kIsRight ? kTile * kTile : 1) {}

  struct Place {
    bfloat16 *left, *right;
    int64_t left_row, right_column;  ///< elements of a row of tiles of A, and of a column of tiles of B

    void put(int64_t row, int64_t column, const Vector<float>& first, const Vector<float>& second) const {
      if constexpr (kIsLeft) {
        bfloat16* const to = left + row / kBf16Tile * left_row + row % kBf16Tile * kBf16Depth +
                             column / kBf16Depth * kTileSize + column % kBf16Depth;
        store(to, first);
        store(to + kBf16Depth, second);
      }
      if constexpr (kIsRight) {
        bfloat16* const to =
            right + column / kBf16Tile * right_column + column % kBf16Tile * 2 + row * kBf16Tile;  // tiles follow on
        store(reinterpret_cast<uint32_t*>(to), pairs_of(first, second));
      }
    }
  };
  Place begin(int64_t rows, int64_t columns) {
    if (rows < kTile || columns < kTile) {  // products need zeros at the end of the depth
      if constexpr (kIsLeft) std::fill_n(static_cast<bfloat16*>(left_), kTile * kTile, bfloat16());
      if constexpr (kIsRight) std::fill_n(static_cast<bfloat16*>(right_), kTile * kTile, bfloat16());
    }
    return {left_, right_, ceil_div(columns, kBf16Depth) * kTileSize, ceil_div(rows, kBf16Depth) * kTileSize};
  }
  Left<bfloat16> left() const { return {left_}; }
  Right<bfloat16> right() const { return {right_}; }

 private:
  static constexpr bool kIsLeft = sides != Sides::right;
  static constexpr bool kIsRight = sides != Sides::left;
  static constexpr int64_t kTileSize = kBf16Tile * kBf16Depth;
  Buffer<bfloat16> left_, right_;
};

}  // namespace bochner::cpu
