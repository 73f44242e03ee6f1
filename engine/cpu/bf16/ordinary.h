// bf16_product by instructions that every processor has, with the same bits as from those for bf16 (product.h).
#pragma once

#include <cstdint>

#include "engine/cpu/bf16/product.h"

namespace bochner::cpu {

/// bf16_product in the given order.
void ordinary_product(Bf16Order order, int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b,
                      float* c, int64_t ldc, bool accumulate);

}  // namespace bochner::cpu
