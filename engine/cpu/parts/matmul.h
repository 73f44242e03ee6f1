// The matrix product, which layers also call. Its parameters are described in engine/ops/matmul.cpp.
#pragma once

#include <vector>

#include "engine/ops/matmul.h"

namespace bochner::cpu {

void matmul(int64_t m, int64_t n, int64_t k, const Tensor& a, MatrixLayout a_layout,
            const std::vector<int64_t>& a_offsets, const Tensor& b, MatrixLayout b_layout,
            const std::vector<int64_t>& b_offsets, const Tensor& c);

}  // namespace bochner::cpu
