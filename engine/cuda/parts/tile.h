// Tiles in shared memory, for the attention kernels: loaded from strided rows, and multiplied.
#pragma once

#include <limits>
#include <type_traits>

#include "engine/bf16.h"
#include "engine/cuda/parts/launch.h"
#include "engine/tensor.h"

namespace bochner::cuda {

/// Tokens of each (batch, head): row i begins at data + offset(b, h) + i * stride and is contiguous.
template <class T>
struct Tokens {
  T* data;
  int64_t batch_stride, head_stride, stride;

  explicit Tokens(const Tensor& x)
      : data(x.data<std::remove_const_t<T>>()),
        batch_stride(x.strides()[0]),
        head_stride(x.strides()[1]),
        stride(x.strides()[2]) {}
  BOCHNER_DEVICE T* head(int64_t b, int64_t h) const { return data + b * batch_stride + h * head_stride; }
};

/// Tokens that are f32 or bf16 in memory, which is known only at run time, and f32 in computations: for kernels that
/// read and write them once.
struct StoredTokens {
  void* data;
  bool is_bf16;
  int64_t batch_stride, head_stride, stride;

  explicit StoredTokens(const Tensor& x)
      : data(x.raw()),
        is_bf16(x.dtype() == DType::bf16),
        batch_stride(x.strides()[0]),
        head_stride(x.strides()[1]),
        stride(x.strides()[2]) {
    BOCHNER_ASSERT(compute_dtype(x.dtype()) == DType::f32);
  }

  /// The tokens of one (batch, head).
  struct Head {
    void* data;
    bool is_bf16;
    int64_t begin, stride;
    BOCHNER_DEVICE float get(int64_t token, int64_t column) const {
      const int64_t at = begin + token * stride + column;
      return is_bf16 ? static_cast<float>(static_cast<const bfloat16*>(data)[at]) : static_cast<const float*>(data)[at];
    }
    BOCHNER_DEVICE void put(int64_t token, int64_t column, float value) const {
      const int64_t at = begin + token * stride + column;
      if (is_bf16) {
        static_cast<bfloat16*>(data)[at] = bfloat16(value);
      } else {
        static_cast<float*>(data)[at] = value;
      }
    }
  };
  BOCHNER_DEVICE Head head(int64_t b, int64_t h) const {
    return {data, is_bf16, b * batch_stride + h * head_stride, stride};
  }
};

/// Which keys of an example are real.
struct KeyMask {
  const bool* data = nullptr;
  int64_t batch_stride = 0, stride = 0;

  explicit KeyMask(const Tensor& mask) {
    if (!mask.defined()) return;
    data = mask.data<bool>();
    batch_stride = mask.strides()[0];
    stride = mask.strides()[1];
  }
  BOCHNER_DEVICE bool real(int64_t b, int64_t key) const {
    return data == nullptr || data[b * batch_stride + key * stride];
  }
};

/// The row stride of a tile with the given number of columns: odd, so that columns are also read without bank
/// conflicts.
BOCHNER_DEVICE constexpr int tile_stride(int columns) { return columns | 1; }

/// tile (rows x columns) = factor * rows `first` ... of x where wanted(row), else 0.
template <class T, class Team, class Wanted>
BOCHNER_DEVICE void load_tile(const Team& team, const T* x, int64_t stride, int rows, int columns, T factor, T* tile,
                              const Wanted& wanted) {
  const int ld = tile_stride(columns);
  for (int i = team.rank(); i < rows * columns; i += team.size()) {
    const int row = i / columns;
    const int column = i - row * columns;
    tile[row * ld + column] = wanted(row) ? factor * x[row * stride + column] : T(0);
  }
}

/// A matrix in shared memory: element (i, j) is data[i * row + j * column].
template <class T>
struct Matrix {
  const T* data;
  int row, column;
};
/// A tile with tile_stride(columns) between rows, and its transpose.
template <class T>
BOCHNER_DEVICE Matrix<T> matrix(const T* tile, int columns) {
  return {tile, tile_stride(columns), 1};
}
template <class T>
BOCHNER_DEVICE Matrix<T> transposed(const T* tile, int columns) {
  return {tile, 1, tile_stride(columns)};
}

/// C (m x n, rows ldc apart) = A B, or C += A B. Each thread computes patches of 4 x 4, with rows a quarter of m apart
/// and columns a quarter of n apart, so that neighbours read neighbouring elements. Synchronise the team before and
/// after.
template <bool adds, class T, class Team>
BOCHNER_DEVICE void multiply(const Team& team, int m, int n, int k, Matrix<T> a, Matrix<T> b, T* c, int ldc) {
  const int row_step = ceil_div(m, 4);
  const int column_step = ceil_div(n, 4);
  for (int patch = team.rank(); patch < row_step * column_step; patch += team.size()) {
    const int first_row = patch / column_step;
    const int first_column = patch - first_row * column_step;
    const T* rows[4];
    const T* columns[4];
    T sum[4][4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {  // rows beyond the last repeat it and are not stored
      const int i = first_row + r * row_step;
      const int j = first_column + r * column_step;
      rows[r] = a.data + (i < m ? i : m - 1) * a.row;
      columns[r] = b.data + (j < n ? j : n - 1) * b.column;
    }
    for (int l = 0; l < k; ++l) {
      T left[4];
      T right[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        left[r] = rows[r][l * a.column];
        right[r] = columns[r][l * b.row];
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int s = 0; s < 4; ++s) sum[r][s] += left[r] * right[s];
      }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = first_row + r * row_step;
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const int j = first_column + s * column_step;
        if (i < m && j < n) c[i * ldc + j] = adds ? c[i * ldc + j] + sum[r][s] : sum[r][s];
      }
    }
  }
}

}  // namespace bochner::cuda
