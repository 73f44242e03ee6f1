// Products of matrices of bf16, summed in f32:   C (rows x cols)  =  A (rows x depth) B (depth x cols)   or   C += A B
//
// Both factors are packed in tiles of 1 KiB (pack.h), padded with zeros: 16 rows of A by 32 of the depth, and 16 pairs
// of the depth by 16 columns of B, with the two numbers of a pair next to each other. The processors' own instructions
// read them in this form. These add in two different orders, which ordinary instructions reproduce bit for bit:
//
//   pairs  (vdpbf16ps, AVX512-BF16)   c <- a0 b0 + (a1 b1 + c)  for each pair in turn, rounded after each addition
//   tiles  (tdpbf16ps, AMX)           for each 32 of the depth: e <- e + a0 b0 and o <- o + a1 b1 from zero over the 16
//                                     pairs, then c <- c + (e + o)
//
// In both, numbers below 2^-126 count as zero, in inputs and results. So each order gives equal bits on every x86
// processor, and the two differ only by rounding. The order in use is `tiles` if the processor has AMX, whose peak is
// 15 times that of f32, and `pairs` otherwise; BOCHNER_BF16=pairs or tiles in the environment overrides this.
#pragma once

#include <cstdint>
#include <string>

#include "engine/dtype.h"

namespace bochner::cpu {

enum class Bf16Order : uint8_t { pairs, tiles };

/// The order of all products in this process. An Error, at the first call, if BOCHNER_BF16 names another one.
Bf16Order bf16_order();
/// Whether the processor and the system have the instruction of that order.
bool has_bf16_instruction(Bf16Order order);
enum class Bf16By : uint8_t { instruction, ordinary };
/// How this process computes its products: by the processor's instruction, if there is one and it is faster than
/// ordinary ones, which the first call measures. No bit depends on it.
Bf16By bf16_by();
/// For example `tiles, by AMX` or `pairs, by ordinary instructions, faster here than AVX512-BF16`.
std::string bf16_description();

/// Rows of A and columns of B in a tile, and its depth.
inline constexpr int64_t kBf16Tile = 16;
inline constexpr int64_t kBf16Depth = 32;

/// C = A B, or C += A B if `accumulate`; a and b as packed by pack.h, C row-major. Runs only on the calling thread.
void bf16_product(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                  int64_t ldc, bool accumulate = false);
/// The same in the given order. By::instruction needs has_bf16_instruction(order).
void bf16_product(Bf16Order order, Bf16By by, int64_t rows, int64_t cols, int64_t depth, const bfloat16* a,
                  const bfloat16* b, float* c, int64_t ldc, bool accumulate);

}  // namespace bochner::cpu
