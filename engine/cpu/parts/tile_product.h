// Products of small matrices whose operands sit in the L1 or L2 cache: the inner loop of the attention kernels.
//
//   C (rows x cols)  =  A (rows x depth) B (depth x cols)        or  C += A B
//
// Nothing is packed or copied. A may have any strides, so its transpose costs nothing: A^T is {1, lda}, and a product A
// B^T with B row-major is computed as the transpose of B A^T. B and C are row-major, each with its row stride.
//
//   tile_product(64, 64, 32, K, {32, 1}, Qt, 64, St, 64);               // S^T = K Q^T  (64 keys x 64 queries)
//   tile_product(64, 32, 64, Pt, {1, 64}, V, 32, O, 32, true);          // O += P V,  P stored as P^T
//
// Registers hold a block of C, e.g. 6 rows of 4 vectors with AVX-512, and each step of the depth adds the outer product
// of a column of A and a row of B to it (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication",
// ACM TOMS 2008, without the packing). Rows are divided evenly among blocks; the last vector of a row may overlap the
// one before it, so columns need no masks and no padding. A long depth is cut so that the part of B in use stays in the
// L1 cache. The vector width follows -march. Every element of C is summed over the depth in ascending order, cut at
// places that depend on cols and depth alone: its bits do not depend on how rows are shared out.
#pragma once

#include <cstdint>

namespace bochner::cpu {

/// Distance in elements from one row of a matrix to the next, and from one column to the next.
struct TileStrides {
  int64_t row;
  int64_t col;
};

/// C = A B, or C += A B if `accumulate`. T is float or double. ldb and ldc are the row strides of B and C, at least
/// cols; C must not overlap A or B. depth = 0 gives C = 0 (or leaves it unchanged). Runs only on the calling thread.
template <class T>
void tile_product(int64_t rows, int64_t cols, int64_t depth, const T* a, TileStrides a_strides, const T* b, int64_t ldb,
                  T* c, int64_t ldc, bool accumulate = false);

}  // namespace bochner::cpu
