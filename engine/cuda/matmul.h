#pragma once

#include "engine/cpu/matmul.h"
#include "engine/tensor.h"

namespace bochner::cuda {

using cpu::MatrixLayout;

/// For each i: C_i (m x n, contiguous, one after the other) = A_i B_i, at element offsets a_offsets[i], b_offsets[i].
void matmul(int64_t m, int64_t n, int64_t k, const Tensor& a, MatrixLayout a_layout,
            const std::vector<int64_t>& a_offsets, const Tensor& b, MatrixLayout b_layout,
            const std::vector<int64_t>& b_offsets, const Tensor& c);

}  // namespace bochner::cuda
