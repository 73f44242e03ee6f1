// The processors' own instructions for products of bf16, compiled whatever -march says and detected at run time.
#pragma once

#include <cstdint>

#include "engine/dtype.h"

namespace bochner::cpu::bf16_instructions {

/// AVX512-BF16: Cooper Lake, Sapphire Rapids, Zen 4 and later.
bool has_pairs();
/// bf16_product in the order `pairs`.
void product_of_pairs(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                      int64_t ldc, bool accumulate);

/// AMX: Sapphire Rapids and later, if Linux permits the use of its registers, which this requests.
bool has_tiles();
/// bf16_product in the order `tiles`.
void product_of_tiles(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                      int64_t ldc, bool accumulate);

}  // namespace bochner::cpu::bf16_instructions
