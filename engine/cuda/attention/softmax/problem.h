// The arguments of the softmax attention kernels, and the shared memory of a block's tiles.
#pragma once

#include <algorithm>

#include "engine/cuda/parts/philox.h"
#include "engine/cuda/parts/tile.h"
#include "engine/ops/attention/softmax_attention.h"

namespace bochner::cuda {

template <class T>
struct AttentionProblem {
  int64_t heads, queries, keys;
  int dim, value_dim;
  int query_tile, key_tile;
  T scale;
  bool causal, drops;
  DropoutFactors<T> drop;
  Tokens<const T> Q, K, V;
  KeyMask mask;

  AttentionProblem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask,
                   const SoftmaxAttentionOptions& options)
      : heads(q.size(1)),
        queries(q.size(2)),
        keys(k.size(2)),
        dim(static_cast<int>(q.size(3))),
        value_dim(static_cast<int>(v.size(3))),
        query_tile(0),
        key_tile(0),
        scale(static_cast<T>(options.scale)),
        causal(options.causal),
        drops(options.dropout.active()),
        drop(options.dropout),
        Q(q),
        K(k),
        V(v),
        mask(key_mask) {}

  int64_t query_tiles() const { return ceil_div(queries, query_tile); }
  int64_t key_tiles() const { return ceil_div(keys, key_tile); }

  BOCHNER_DEVICE bool hidden(int64_t b, int64_t query, int64_t key) const {
    return query >= queries || key >= keys || (causal && key > query) || !mask.real(b, key);
  }
  BOCHNER_DEVICE T factor(int64_t head, int64_t query, int64_t key) const {
    return drop.at((head * queries + query) * keys + key);
  }
  /// The keys that some query before `query` may see.
  BOCHNER_DEVICE int64_t visible_before(int64_t query) const { return causal && query < keys ? query : keys; }
};

/// Shared memory, handed out piece by piece.
template <class T>
class SharedMemory {
 public:
  BOCHNER_DEVICE explicit SharedMemory(T* memory) : next_(memory) {}
  BOCHNER_DEVICE T* tile(int rows, int columns) { return take(rows * tile_stride(columns)); }
  BOCHNER_DEVICE T* take(int count) {
    T* const place = next_;
    next_ += count;
    return place;
  }

 private:
  T* next_;
};
inline int64_t tile_elements(int64_t rows, int64_t columns) { return rows * (columns | 1); }

/// Chooses the largest tiles whose shared memory, elements(queries, keys), fits; returns its bytes.
template <class T, class Elements>
size_t choose_tiles(AttentionProblem<T>& p, const Elements& elements) {
  // With at least two blocks on a multiprocessor, one runs while another waits.
  const size_t limit = std::min(platform::shared_limit(), size_t{112} << 10);
  constexpr int kTiles[][2] = {{64, 64}, {64, 32}, {32, 32}, {32, 16}, {16, 16}, {8, 8}, {4, 4}, {2, 2}, {1, 1}};
  for (const auto& [queries, keys] : kTiles) {
    const size_t bytes = static_cast<size_t>(elements(queries, keys)) * sizeof(T);
    if (bytes > limit) continue;
    p.query_tile = queries;
    p.key_tile = keys;
    return bytes;
  }
  fail("softmax_attention: heads of {} and {} are too large for the {} bytes of shared memory of this card", p.dim,
       p.value_dim, limit);
}

}  // namespace bochner::cuda
