// Weights as the right factor of products of tiles, cut into chunks that stay in the L2 cache.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <tuple>

#include "engine/cpu/bf16/factors.h"
#include "engine/cpu/parts/pack.h"
#include "engine/packed_weights.h"

namespace bochner::cpu {

/// The number of columns, or rows, of a chunk.
inline constexpr int64_t kWeightChunk = 128;

/// How B is cut: into chunks of columns (depth x chunk), or of its depth (chunk x cols).
enum class Cut : uint8_t { columns, depth };

/// A right factor B (depth x cols) that lies in memory as W, of the type in which products are summed: element (k, j)
/// is W[k * strides.row + j * strides.col], where one of the two is 1.
struct WeightLayout {
  int64_t depth, cols;
  TileStrides strides;
  Cut cut;
  DType packed;  ///< of the copies

  auto operator<=>(const WeightLayout& other) const {
    return std::make_tuple(depth, cols, strides.row, strides.col, cut, packed) <=>
           std::make_tuple(other.depth, other.cols, other.strides.row, other.strides.col, other.cut, other.packed);
  }
};

/// The result of `pack` for W, or an earlier result if that is kept (KeepPackedWeights) and W is unchanged.
Tensor packed_or_kept(const Tensor& W, const WeightLayout& layout, const std::function<Tensor()>& pack);

/// The number of packed copies that this thread keeps.
int64_t kept_packed_weights();

/// B in chunks. S is the type of the activations.
template <class S>
class PackedWeights {
 public:
  using T = ComputeType<S>;
  PackedWeights(const Tensor& W, int64_t depth, int64_t cols, TileStrides strides, Cut cut)
      : chunk_depth_(cut == Cut::depth ? std::min(depth, kWeightChunk) : depth),
        chunk_cols_(cut == Cut::columns ? std::min(cols, kWeightChunk) : cols) {
    const WeightLayout layout{depth, cols, strides, cut, dtype_of<S>};
    memory_ = packed_or_kept(W, layout, [&] { return packed(W.data<T>(), layout); });
  }
  Right<S> chunk(int64_t c) const {
    S* const at = memory_.data<S>() + c * chunk_size();
    if constexpr (kPacks) {
      return {at};
    } else {
      return {at, stride()};
    }
  }

 private:
  static constexpr bool kPacks = std::is_same_v<S, bfloat16>;
  int64_t stride() const { return padded<T>(chunk_cols_); }
  int64_t chunk_size() const { return kPacks ? packed_size(chunk_cols_, chunk_depth_) : chunk_depth_ * stride(); }

  Tensor packed(const T* w, const WeightLayout& layout) const {
    const bool by_columns = layout.cut == Cut::columns;
    const int64_t extent = by_columns ? layout.cols : layout.depth;
    const int64_t step = by_columns ? layout.strides.col : layout.strides.row;
    const int64_t chunks = ceil_div(extent, kWeightChunk);
    const Tensor memory = Tensor::empty({chunks * chunk_size()}, dtype_of<S>);
    parallel_for(chunks, 1, [&](int64_t c, int64_t) {
      const int64_t width = std::min(kWeightChunk, extent - c * kWeightChunk);
      const int64_t depth = by_columns ? layout.depth : width;
      const int64_t cols = by_columns ? width : layout.cols;
      const T* const from = w + c * kWeightChunk * step;
      S* const to = memory.data<S>() + c * chunk_size();
      if constexpr (kPacks) {
        pack_right(depth, cols, from, layout.strides, to);
      } else if (layout.strides.col == 1) {
        copy_rows(depth, cols, from, layout.strides.row, to, stride());
      } else {
        copy_transposed(cols, depth, from, layout.strides.col, to, stride());
      }
    });
    return memory;
  }

  int64_t chunk_depth_, chunk_cols_;
  Tensor memory_;
};

}  // namespace bochner::cpu
