// Matrix products of four warps together (wgmma, for which Hopper's tensor cores are made): the left factor and the
// sums are in registers, 16 rows per warp, as in warp_tile.h; the right factor is a tile in shared memory, which all
// four read. Products run alongside what follows, in the order in which they are started:
//
//   before_products(s, o);                       // registers that products read or write were written
//   begin_rows_product<true>(s, q, keys);        // s = q keys^T, keys a tile of 64 x D
//   begin_columns_product(o, p, values);         // o += p values, values a tile of 64 x D
//   end_products();                              // what was begun since the last end_products() is a group
//   wait_for_products<0>(s, o);                  // until at most 0 groups are unfinished; s and o may be read
//
// All four warps must begin the same products. ptxas warns (C7510 to C7515) when it makes each product wait for the
// previous one: if registers are too few, or if it cannot see that sums are not touched before a wait. A tile has rows
// of D numbers, 32 or 64, whose groups of eight are permuted so that there are no bank conflicts, as NVIDIA's PTX
// manual describes under "Asynchronous warpgroup-level matrix shared memory layout", swizzling mode 128 bytes (or 64).
// The emulated products read a tile through the same descriptor.
#pragma once

#include "engine/cuda/parts/warp_matrix.h"

namespace bochner::cuda {

constexpr int kGroupWarps = 4;
constexpr int kGroupRows = 16 * kGroupWarps;
static_assert(sizeof(bfloat16) == 2);

/// The position of an element of a tile, counted in elements.
template <int D>
BOCHNER_DEVICE constexpr int tile_place(int row, int column) {
  static_assert(D == 32 || D == 64);
  const int bytes = 2 * (row * D + column);
  return (bytes ^ (bytes >> 7 & (D / 8 - 1)) << 4) / 2;
}

/// How the tensor cores find the elements of a tile: its descriptor is `where`, with kTileShape above it. Groups of
/// eight rows follow one another; which of the manual's two strides that is depends on whether the tile is transposed.
template <int D>
inline constexpr uint32_t kEightRows = 8 * 2 * D / 16;
template <int D>
inline constexpr uint32_t kTileShape = kEightRows<D> | (D == 64 ? 1U : 2U) << 30;
template <int D>
BOCHNER_DEVICE constexpr uint32_t tile_where(uint32_t bytes) {
  return (bytes & 0x3FFFFU) >> 4 | kEightRows<D> << 16;
}
/// What 16 columns or 16 rows add to `where`.
inline constexpr uint32_t kColumnStep = 16 * 2 / 16;
template <int D>
inline constexpr uint32_t kRowStep = 16 * 2 * D / 16;

#if defined(__CUDACC__)

#define BOCHNER_SUMS_OF(n) "+f"(c.v[n][0]), "+f"(c.v[n][1]), "+f"(c.v[n][2]), "+f"(c.v[n][3])

/// c (+)= a b of 16 columns of a; b is 8 N x 16 by rows, or, where it is transposed, 16 x 8 N.
template <bool transposed, bool fresh>
__device__ void begin_step([[maybe_unused]] Sum<8>& c, [[maybe_unused]] const uint32_t (&a)[4],
                           [[maybe_unused]] uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, "
      "%35}, %36, adds, 1, 1, %38;\n}"
      : BOCHNER_SUMS_OF(0), BOCHNER_SUMS_OF(1), BOCHNER_SUMS_OF(2), BOCHNER_SUMS_OF(3), BOCHNER_SUMS_OF(4),
        BOCHNER_SUMS_OF(5), BOCHNER_SUMS_OF(6), BOCHNER_SUMS_OF(7)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(fresh ? 0 : 1), "n"(transposed ? 1 : 0));
#else
  __trap();  // never chosen on such a card
#endif
}
template <bool transposed, bool fresh>
__device__ void begin_step([[maybe_unused]] Sum<4>& c, [[maybe_unused]] const uint32_t (&a)[4],
                           [[maybe_unused]] uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15}, {%16, %17, %18, %19}, %20, adds, 1, 1, %22;\n}"
      : BOCHNER_SUMS_OF(0), BOCHNER_SUMS_OF(1), BOCHNER_SUMS_OF(2), BOCHNER_SUMS_OF(3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(fresh ? 0 : 1), "n"(transposed ? 1 : 0));
#else
  __trap();  // never chosen on such a card
#endif
}
#undef BOCHNER_SUMS_OF

/// A tile in shared memory, or none.
template <int D>
class GroupTile {
 public:
  GroupTile() = default;
  __device__ explicit GroupTile(const bfloat16* begin)
      : where_(tile_where<D>(static_cast<uint32_t>(__cvta_generic_to_shared(begin)))) {}
  __device__ bool exists() const { return where_ != 0; }
  /// This one or, if it is none, another.
  __device__ GroupTile or_else(GroupTile other) const {
    other.where_ = exists() ? where_ : other.where_;
    return other;
  }
  /// The tile that begins this many rows later, a multiple of 16.
  __device__ GroupTile after(int rows) const {
    GroupTile tile;
    tile.where_ = where_ + static_cast<uint32_t>(rows) / 16 * kRowStep<D>;
    return tile;
  }
  __device__ uint64_t columns_from(int step) const {
    return descriptor(where_ + static_cast<uint32_t>(step) * kColumnStep);
  }
  __device__ uint64_t rows_from(int step) const {
    return descriptor(where_ + static_cast<uint32_t>(step) * kRowStep<D>);
  }

 private:
  __device__ static uint64_t descriptor(uint32_t where) { return uint64_t{kTileShape<D>} << 32 | where; }
  uint32_t where_ = 0;
};

/// Neither reads nor writes of x are moved past this point.
template <int N>
__device__ void hold(Sum<N>& x) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(x.v[n][i])::"memory");
  }
}

template <class... Sums>
__device__ void before_products([[maybe_unused]] Sums&... sums) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  (hold(sums), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ inline void end_products() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int unfinished, class... Sums>
__device__ void wait_for_products([[maybe_unused]] Sums&... sums) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(unfinished) : "memory");
  (hold(sums), ...);
#endif
}

template <bool fresh, int D, int N>
__device__ void begin_rows_product(Sum<N>& c, const Left<D / 16>& a, GroupTile<D> tile) {
  begin_step<false, fresh>(c, a.v[0], tile.columns_from(0));
#pragma unroll
  for (int k = 1; k < D / 16; ++k) begin_step<false, false>(c, a.v[k], tile.columns_from(k));
}
template <int D, int K>
__device__ void begin_columns_product(Sum<D / 8>& c, const Left<K>& a, GroupTile<D> tile) {
#pragma unroll
  for (int k = 0; k < K; ++k) begin_step<true, false>(c, a.v[k], tile.rows_from(k));
}

/// Groups that share a multiprocessor start their products one group after another, so that they do not all wait for
/// the tensor cores and then all compute: take() waits until the previous group has called pass(). Every group calls
/// both equally often, with no sync() between them; end() comes last.
template <int groups>
class Turn {
 public:
  __device__ explicit Turn(int warp) : group_(warp / kGroupWarps) {
    if (group_ == groups - 1) pass();
  }
  __device__ void take() const { asm volatile("bar.sync %0, %1;" ::"r"(1 + group_), "n"(kBoth) : "memory"); }
  __device__ void pass() const {
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + (group_ + 1) % groups), "n"(kBoth) : "memory");
  }
  __device__ void end() const {
    if (group_ == 0) take();
  }

 private:
  static constexpr int kBoth = 2 * 32 * kGroupWarps;  ///< threads: those that wait, and those of the previous group
  int group_;
};

/// All groups of a block meet: wait() returns once each group has called announce() as often as this one, possibly long
/// before. A group announces itself again only after every other has waited, which holds for groups that take turns.
template <int groups>
class Meeting {
 public:
  __device__ explicit Meeting(int warp) : group_(warp / kGroupWarps) {}
  __device__ void announce() const {
#pragma unroll
    for (int other = 1; other < groups; ++other) {
      asm volatile("bar.arrive %0, %1;" ::"r"(kFirst + (group_ + other) % groups), "n"(kAll) : "memory");
    }
  }
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(kFirst + group_), "n"(kAll) : "memory"); }

 private:
  static constexpr int kFirst = 1 + groups;  ///< after the barriers of Turn
  static constexpr int kAll = 32 * kGroupWarps * groups;
  int group_;
};

/// The shared memory of a block, aligned as tiles require.
template <class Team>
__device__ bfloat16* tile_memory(const Team&) {
  extern __shared__ __align__(1024) unsigned char bochner_tiles[];
  return reinterpret_cast<bfloat16*>(bochner_tiles);
}

#else

template <int D>
class GroupTile {
 public:
  GroupTile() = default;
  explicit GroupTile(const bfloat16* begin) : begin_(begin) {}
  bool exists() const { return begin_ != nullptr; }
  GroupTile or_else(GroupTile other) const { return exists() ? *this : other; }
  GroupTile after(int rows) const { return GroupTile(begin_ + rows * D); }
  /// A number as the tensor cores find it: given a group of eight rows, a row within it, and a column.
  float at(uint32_t where, int eight, int row, int column) const {
    const uint32_t begin = (where & 0x3FFF) << 4;
    const uint32_t stride = (kTileShape<D> & 0x3FFF) << 4;
    const uint32_t width = kTileShape<D> >> 30 == 1 ? 128 : 64;
    uint32_t place = begin + static_cast<uint32_t>(eight) * stride + static_cast<uint32_t>(row) * width +
                     2 * static_cast<uint32_t>(column);
    place ^= (place >> 7 & (width / 16 - 1)) << 4;
    return static_cast<float>(begin_[place / 2]);
  }

 private:
  const bfloat16* begin_ = nullptr;
};

template <bool transposed, int D, int N, int K>
void begin_step(Sum<N>& c, const Left<K>& a, int step, GroupTile<D> tile) {
  const uint32_t where = tile_where<D>(0) + static_cast<uint32_t>(step) * (transposed ? kRowStep<D> : kColumnStep);
  for (int k = 0; k < 16; ++k) {
    for (int n = 0; n < 8 * N; ++n) {
      const float b = transposed ? tile.at(where, k / 8, k % 8, n) : tile.at(where, n / 8, n % 8, k);
      for (int row = 0; row < 16; ++row) c.v[row][n] += a.v[row][16 * step + k] * b;
    }
  }
}

template <class... Sums>
void before_products(Sums&...) {}
inline void end_products() {}
template <int unfinished, class... Sums>
void wait_for_products(Sums&...) {}

template <bool fresh, int D, int N>
void begin_rows_product(Sum<N>& c, const Left<D / 16>& a, GroupTile<D> tile) {
  if (fresh) c.clear();
  for (int k = 0; k < D / 16; ++k) begin_step<false>(c, a, k, tile);
}
template <int D, int K>
void begin_columns_product(Sum<D / 8>& c, const Left<K>& a, GroupTile<D> tile) {
  for (int k = 0; k < K; ++k) begin_step<true>(c, a, k, tile);
}

template <int groups>
class Turn {
 public:
  explicit Turn(int) {}
  void take() const {}
  void pass() const {}
  void end() const {}
};

template <int groups>
class Meeting {
 public:
  explicit Meeting(int) {}
  void announce() const {}
  void wait() const {}
};

template <class Team>
bfloat16* tile_memory(const Team& team) {
  return team.template shared<bfloat16>();
}

#endif

/// A tile = `rows` rows from rows `stride` apart, or 0 for those that are not wanted(row), which are not read. Runs
/// alongside what follows: products may read the tile after wait_for_tiles() and a meeting.
template <int threads, int rows, int D, class Team, class Wanted>
BOCHNER_DEVICE void begin_copy_tile(const Team& team, const bfloat16* from, int64_t stride, bfloat16* tile,
                                    const Wanted& wanted) {
  constexpr int kEach = D / 8;
  spread<rows * kEach, threads>(team, [&](int i) {
    const int row = i / kEach;
    const int column = i % kEach * 8;
    const bool there = wanted(row);
    begin_sixteen(there ? from + row * stride + column : from, tile + tile_place<D>(row, column), there);
  });
}
/// Waits until all copies that this thread started are done and visible to products.
BOCHNER_DEVICE inline void wait_for_tiles() {
  wait_for_copies();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace bochner::cuda
