// Blocks of both factors are first widened to f32, so that the innermost loop has only loads and multiply-adds: a block
// of B for all rows of a block of A, and that for all columns.
#include "engine/cpu/bf16/ordinary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/cpu/parts/stored.h"
#include "engine/math.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bochner::cpu {
namespace {

constexpr int64_t kTileSize = kBf16Tile * kBf16Depth;
constexpr int64_t kLeftRows = 128;             // per block of A
constexpr int64_t kRightCols = 2 * kBf16Tile;  // per block of B
constexpr int64_t kTilesDeep = 4;              // of both
constexpr int64_t kDeep = kTilesDeep * kBf16Depth;
constexpr int64_t kLeftStride = kDeep + 16;  // so that rows do not compete for the same cache sets

/// Makes ordinary instructions treat small numbers as zero, as those for bf16 do, during the lifetime of this object.
class FlushesSmall {
 public:
#if defined(__SSE2__)
  FlushesSmall() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040U); }  // flush to zero, denormals are zero
  ~FlushesSmall() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#else
  FlushesSmall() = default;
#endif
 public:
  FlushesSmall(const FlushesSmall&) = delete;
  FlushesSmall& operator=(const FlushesSmall&) = delete;
};

using Floats = Vector<float>;
constexpr int kWide = kLanes<float>;

/// a b + c, rounded once.
inline Floats fused(float a, const Floats& b, const Floats& c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(
      _mm512_fmadd_ps(_mm512_set1_ps(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__AVX__) && defined(__FMA__)
  return reinterpret_cast<Floats>(
      _mm256_fmadd_ps(_mm256_set1_ps(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  Floats result{};
  for (int i = 0; i < kWide; ++i) result[i] = std::fma(a, b[i], c[i]);
  return result;
#endif
}

/// Blocks of the factors, widened: A by rows, B by depth. Columns of B beyond the last tile are not written.
struct Widened {
  alignas(64) float left[kLeftRows * kLeftStride];
  alignas(64) float right[kDeep * kRightCols];

  /// Tiles of A, `stride` numbers before those of the rows below them.
  void set_left(int64_t rows, int64_t tiles, const bfloat16* a, int64_t stride) {
    for (int64_t i = 0; i < rows; i += kBf16Tile, a += stride) {
      for (int64_t t = 0; t < tiles; ++t) {
        for (int64_t r = 0; r < kBf16Tile; ++r) {
          const bfloat16* const from = a + t * kTileSize + r * kBf16Depth;
          float* const to = left + (i + r) * kLeftStride + t * kBf16Depth;
          for (int64_t k = 0; k < kBf16Depth; k += kWide) store(to + k, load<Floats>(from + k));
        }
      }
    }
  }

  /// Tiles of B, `stride` numbers before those of the columns next to them.
  void set_right(int64_t cols, int64_t tiles, const bfloat16* b, int64_t stride) {
    for (int64_t j = 0; j < cols; j += kBf16Tile, b += stride) {
      for (int64_t p = 0; p < tiles * kBf16Tile; ++p) {
        const bfloat16* const from = b + p * 2 * kBf16Tile;
        float* const to = right + 2 * p * kRightCols + j;
        for (int64_t i = 0; i < kBf16Tile; i += kWide) {
          WordVector pairs;
          std::memcpy(&pairs, from + 2 * i, sizeof(pairs));
          store(to + i, reinterpret_cast<Floats>(pairs << 16));
          store(to + i + kRightCols, reinterpret_cast<Floats>(pairs & 0xFFFF0000U));
        }
      }
    }
  }
};

/// I rows by J vectors of C, from blocks of A and B: c <- a0 b0 + (a1 b1 + c) for each pair.
template <int I, int J>
inline void add_pairs(int64_t tiles, const float* a, const float* b, float* c, int64_t ldc, bool adds) {
  Floats sum[I][J];
#pragma GCC unroll 16
  for (int r = 0; r < I; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < J; ++j) sum[r][j] = adds ? load<Floats>(c + r * ldc + j * kWide) : Floats{};
  }
  const auto step = [&](const float* left, const float* right) {
    Floats x[J];
#pragma GCC unroll 4
    for (int j = 0; j < J; ++j) x[j] = load<Floats>(right + j * kWide);
#pragma GCC unroll 16
    for (int r = 0; r < I; ++r) {
      const float y = left[r * kLeftStride];
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) sum[r][j] = fused(y, x[j], sum[r][j]);
    }
  };
  for (int64_t k = 0; k < tiles * kBf16Depth; k += 2) {
    step(a + k + 1, b + (k + 1) * kRightCols);
    step(a + k, b + k * kRightCols);
  }
#pragma GCC unroll 16
  for (int r = 0; r < I; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < J; ++j) store(c + r * ldc + j * kWide, sum[r][j]);
  }
}

/// I rows by a vector of C: e <- e + a0 b0 and o <- o + a1 b1 over 16 pairs, then c <- c + (e + o), for each tile.
template <int I>
inline void add_tiles(int64_t tiles, const float* a, const float* b, float* c, int64_t ldc, bool adds) {
  for (int64_t t = 0; t < tiles; ++t, a += kBf16Depth, b += kBf16Depth * kRightCols) {
    Floats even[I] = {}, odd[I] = {};
    for (int64_t k = 0; k < kBf16Depth; k += 2) {
      const auto b0 = load<Floats>(b + k * kRightCols);
      const auto b1 = load<Floats>(b + (k + 1) * kRightCols);
#pragma GCC unroll 8
      for (int r = 0; r < I; ++r) {
        even[r] = fused(a[r * kLeftStride + k], b0, even[r]);
        odd[r] = fused(a[r * kLeftStride + k + 1], b1, odd[r]);
      }
    }
    for (int r = 0; r < I; ++r) {
      float* const to = c + r * ldc;
      store(to, (adds || t > 0 ? load<Floats>(to) : Floats{}) + (even[r] + odd[r]));
    }
  }
}

template <Bf16Order order, int I, int J>
inline void add(int64_t tiles, const float* a, const float* b, float* c, int64_t ldc, bool adds) {
  if constexpr (order == Bf16Order::pairs) {
    add_pairs<I, J>(tiles, a, b, c, ldc, adds);
  } else {
    static_assert(J == 1);
    add_tiles<I>(tiles, a, b, c, ldc, adds);
  }
}

/// A block of C from a block of A and one of B, I rows by J vectors at a time; in a copy at the edges.
template <Bf16Order order, int I, int J>
void add_block(const Widened& from, int64_t rows, int64_t cols, int64_t tiles, float* c, int64_t ldc, bool adds) {
  constexpr int64_t kCols = J * kWide;
  for (int64_t j = 0; j < cols; j += kCols) {
    const int64_t width = std::min(kCols, cols - j);
    for (int64_t i = 0; i < rows; i += I) {
      const int64_t height = std::min<int64_t>(I, rows - i);
      const float* const a = from.left + i * kLeftStride;
      float* const to = c + i * ldc + j;
      if (height == I && width == kCols) {
        add<order, I, J>(tiles, a, from.right + j, to, ldc, adds);
        continue;
      }
      float copy[I * kCols] = {};
      for (int64_t r = 0; r < height && adds; ++r) std::copy_n(to + r * ldc, width, copy + r * kCols);
      add<order, I, J>(tiles, a, from.right + j, copy, kCols, adds);
      for (int64_t r = 0; r < height; ++r) std::copy_n(copy + r * kCols, width, to + r * ldc);
    }
  }
}

constexpr int kRowsAtOnce = kVectorRegisters == 32 ? 8 : 4;

template <Bf16Order order>
void product(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c, int64_t ldc,
             bool accumulate) {
  constexpr int kVectors = order == Bf16Order::pairs ? 2 : 1;  // `tiles` has two sums per element
  const int64_t tiles = ceil_div(depth, kBf16Depth);
  if (tiles == 0 && !accumulate) {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(c + r * ldc, cols, 0.0F);
  }
  const FlushesSmall scope;
  Widened wide;
  for (int64_t i = 0; i < rows; i += kLeftRows) {
    const int64_t height = std::min(kLeftRows, rows - i);
    for (int64_t t = 0; t < tiles; t += kTilesDeep) {
      const int64_t deep = std::min(kTilesDeep, tiles - t);
      const bool adds = accumulate || t > 0;
      wide.set_left(height, deep, a + (i / kBf16Tile * tiles + t) * kTileSize, tiles * kTileSize);
      for (int64_t j = 0; j < cols; j += kRightCols) {
        const int64_t width = std::min(kRightCols, cols - j);
        wide.set_right(width, deep, b + (j / kBf16Tile * tiles + t) * kTileSize, tiles * kTileSize);
        const auto run = width > kWide ? add_block<order, kRowsAtOnce, kVectors> : add_block<order, kRowsAtOnce, 1>;
        run(wide, height, width, deep, c + i * ldc + j, ldc, adds);
      }
    }
  }
}

}  // namespace

void ordinary_product(Bf16Order order, int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b,
                      float* c, int64_t ldc, bool accumulate) {
  (order == Bf16Order::pairs ? product<Bf16Order::pairs> : product<Bf16Order::tiles>)(rows, cols, depth, a, b, c, ldc,
                                                                                      accumulate);
}

}  // namespace bochner::cpu
