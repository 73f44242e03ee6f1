// The factors of bf16_product, packed from rows of f32 or bf16 numbers, or from their transpose.
#pragma once

#include "engine/cpu/bf16/product.h"
#include "engine/cpu/parts/tile_product.h"
#include "engine/math.h"

namespace bochner::cpu {

/// Elements of a packed factor: rows of A or columns of B, by the depth.
inline int64_t packed_size(int64_t rows, int64_t depth) {
  return round_up(rows, kBf16Tile) * round_up(depth, kBf16Depth);
}

/// A (rows x depth), one of whose strides is 1. S is float, which is rounded, or bfloat16.
template <class S>
void pack_left(int64_t rows, int64_t depth, const S* a, TileStrides strides, bfloat16* to);
/// B (depth x cols), one of whose strides is 1.
template <class S>
void pack_right(int64_t depth, int64_t cols, const S* b, TileStrides strides, bfloat16* to);

}  // namespace bochner::cpu
