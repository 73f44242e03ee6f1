#include "engine/cpu/bf16/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "engine/cpu/bf16/instructions.h"
#include "engine/cpu/parts/stored.h"
#include "engine/error.h"
#include "engine/math.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bochner::cpu {
namespace {

constexpr int64_t kTileSize = kBf16Tile * kBf16Depth;

/// Lets ordinary instructions take small numbers for zero, as those for bf16 do, in the scope of this object.
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

/// a b + c, rounded once.
inline Floats fused(const Floats& a, const Floats& b, const Floats& c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__AVX__) && defined(__FMA__)
  return reinterpret_cast<Floats>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  Floats result{};
  for (int i = 0; i < kLanes<float>; ++i) result[i] = std::fma(a[i], b[i], c[i]);
  return result;
#endif
}

inline Floats first_of(const WordVector& pairs) { return reinterpret_cast<Floats>(pairs << 16); }
inline Floats second_of(const WordVector& pairs) { return reinterpret_cast<Floats>(pairs & 0xFFFF0000U); }

constexpr int kRowsAtOnce = kVectorRegisters == 32 ? 8 : 4;

/// Rows [row, row + kRowsAtOnce) of a tile of C += a tile of A, widened to f32, times a tile of B, kLanes columns from
/// `column` on.
template <Bf16Order order>
inline void add_block(const float* a, const uint32_t* b, float* c, int64_t ldc, int64_t row, int64_t column) {
  Floats sum[kRowsAtOnce];
  Floats odd[kRowsAtOnce] = {};
  for (int r = 0; r < kRowsAtOnce; ++r) {
    sum[r] = order == Bf16Order::pairs ? load<Floats>(c + (row + r) * ldc + column) : Floats{};
  }
  for (int64_t p = 0; p < kBf16Tile; ++p) {
    const auto pairs = load<WordVector>(b + p * kBf16Tile + column);
    const Floats b0 = first_of(pairs);
    const Floats b1 = second_of(pairs);
#pragma GCC unroll 8
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const Floats a0 = Floats{} + a[(row + r) * kBf16Depth + 2 * p];
      const Floats a1 = Floats{} + a[(row + r) * kBf16Depth + 2 * p + 1];
      if constexpr (order == Bf16Order::pairs) {
        sum[r] = fused(a0, b0, fused(a1, b1, sum[r]));
      } else {
        sum[r] = fused(a0, b0, sum[r]);
        odd[r] = fused(a1, b1, odd[r]);
      }
    }
  }
  for (int r = 0; r < kRowsAtOnce; ++r) {
    float* const to = c + (row + r) * ldc + column;
    store(to, order == Bf16Order::pairs ? sum[r] : load<Floats>(to) + (sum[r] + odd[r]));
  }
}

/// A tile of C += A B along the whole depth, of one row of tiles of A and one column of tiles of B.
template <Bf16Order order>
void add_tile(int64_t tiles, const bfloat16* a, const bfloat16* b, float* c, int64_t ldc) {
  alignas(64) float wide[kTileSize];
  uint32_t pairs[kTileSize / 2];
  for (int64_t t = 0; t < tiles; ++t, a += kTileSize, b += kTileSize) {
    for (int64_t i = 0; i < kTileSize; ++i) wide[i] = static_cast<float>(a[i]);
    std::memcpy(pairs, b, sizeof(pairs));
    for (int64_t row = 0; row < kBf16Tile; row += kRowsAtOnce) {
      for (int64_t column = 0; column < kBf16Tile; column += kLanes<float>)
        add_block<order>(wide, pairs, c, ldc, row, column);
    }
  }
}

/// Tile by tile of C, at its edges in a copy of it.
template <class AddTile>
void product_by_tiles(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                      int64_t ldc, bool accumulate, const AddTile& add) {
  const int64_t tiles = ceil_div(depth, kBf16Depth);
  for (int64_t j = 0; j < cols; j += kBf16Tile) {
    const int64_t width = std::min(kBf16Tile, cols - j);
    for (int64_t i = 0; i < rows; i += kBf16Tile) {
      const int64_t height = std::min(kBf16Tile, rows - i);
      const bfloat16* const left = a + i / kBf16Tile * tiles * kTileSize;
      const bfloat16* const right = b + j / kBf16Tile * tiles * kTileSize;
      float* const to = c + i * ldc + j;
      if (height == kBf16Tile && width == kBf16Tile) {
        for (int64_t r = 0; r < height && !accumulate; ++r) std::fill_n(to + r * ldc, kBf16Tile, 0.0F);
        add(tiles, left, right, to, ldc);
        continue;
      }
      float sum[kBf16Tile * kBf16Tile] = {};
      for (int64_t r = 0; r < height && accumulate; ++r) std::copy_n(to + r * ldc, width, sum + r * kBf16Tile);
      add(tiles, left, right, sum, kBf16Tile);
      for (int64_t r = 0; r < height; ++r) std::copy_n(sum + r * kBf16Tile, width, to + r * ldc);
    }
  }
}

Bf16Order chosen_order() {
  const char* const wanted = std::getenv("BOCHNER_BF16");
  if (wanted == nullptr) return has_bf16_instruction(Bf16Order::tiles) ? Bf16Order::tiles : Bf16Order::pairs;
  const std::string_view name = wanted;
  if (name == "pairs") return Bf16Order::pairs;
  if (name == "tiles") return Bf16Order::tiles;
  fail("BOCHNER_BF16: '{}' is none of pairs, tiles; these are the orders in which products of bf16 add", name);
}

}  // namespace

Bf16Order bf16_order() {
  static const Bf16Order order = chosen_order();
  return order;
}

bool has_bf16_instruction(Bf16Order order) {
  static const bool pairs = bf16_instructions::has_pairs();
  static const bool tiles = bf16_instructions::has_tiles();
  return order == Bf16Order::pairs ? pairs : tiles;
}

std::string bf16_description() {
  const Bf16Order order = bf16_order();
  const bool tiles = order == Bf16Order::tiles;
  const char* by = !has_bf16_instruction(order) ? "ordinary instructions" : tiles ? "AMX" : "AVX512-BF16";
  return fmt::format("{}, by {}", tiles ? "tiles" : "pairs", by);
}

void bf16_product(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                  int64_t ldc, bool accumulate) {
  const Bf16Order order = bf16_order();
  bf16_product(order, has_bf16_instruction(order) ? Bf16By::instruction : Bf16By::ordinary, rows, cols, depth, a, b, c,
               ldc, accumulate);
}

void bf16_product(Bf16Order order, Bf16By by, int64_t rows, int64_t cols, int64_t depth, const bfloat16* a,
                  const bfloat16* b, float* c, int64_t ldc, bool accumulate) {
  if (by == Bf16By::instruction) {
    const bool tiles = order == Bf16Order::tiles;
    const auto product = tiles ? bf16_instructions::product_of_tiles : bf16_instructions::product_of_pairs;
    return product(rows, cols, depth, a, b, c, ldc, accumulate);
  }
  const FlushesSmall scope;
  product_by_tiles(rows, cols, depth, a, b, c, ldc, accumulate,
                   order == Bf16Order::pairs ? add_tile<Bf16Order::pairs> : add_tile<Bf16Order::tiles>);
}

}  // namespace bochner::cpu
