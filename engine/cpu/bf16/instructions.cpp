#include "engine/cpu/bf16/instructions.h"

#include <algorithm>

#include "engine/cpu/bf16/product.h"
#include "engine/error.h"
#include "engine/math.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define BOCHNER_BF16_INSTRUCTIONS 1
#endif

namespace bochner::cpu::bf16_instructions {

#ifdef BOCHNER_BF16_INSTRUCTIONS

namespace {

constexpr int64_t kTileSize = kBf16Tile * kBf16Depth;

/// What ldtilecfg reads: eight registers of 16 rows of 64 bytes (Intel's manual, volume 1, chapter 18).
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileShapes kShapes;

/// A tile of C: in place if it is whole, otherwise in a copy.
struct Place {
  float* c;
  int64_t ldc, height, width;
  bool accumulate;
  alignas(64) float copy[kBf16Tile * kBf16Tile];

  bool whole() const { return height == kBf16Tile && width == kBf16Tile; }
  float* data() { return whole() ? c : copy; }
  int64_t stride() const { return (whole() ? ldc : kBf16Tile) * static_cast<int64_t>(sizeof(float)); }
  void set(float* at, int64_t step, int64_t rows, int64_t cols, bool adds) {
    c = at;
    ldc = step;
    height = std::min(kBf16Tile, rows);
    width = std::min(kBf16Tile, cols);
    accumulate = adds;
    if (whole() || !adds) return;
    std::fill_n(copy, kBf16Tile * kBf16Tile, 0.0F);
    for (int64_t r = 0; r < height; ++r) std::copy_n(c + r * ldc, width, copy + r * kBf16Tile);
  }
  void finish() const {
    if (whole()) return;
    for (int64_t r = 0; r < height; ++r) std::copy_n(copy + r * kBf16Tile, width, c + r * ldc);
  }
};

/// I x J tiles of C. Registers 0 to 3 hold C, 4 and 5 tiles of A, 6 and 7 tiles of B.
template <int I, int J>
__attribute__((target("amx-tile,amx-bf16"))) void block(int64_t tiles, const bfloat16* a, const bfloat16* b,
                                                        Place* places) {
  const int64_t next = tiles * kTileSize;
  if (places[0].accumulate) {
    _tile_loadd(0, places[0].data(), places[0].stride());
    if constexpr (J == 2) _tile_loadd(1, places[1].data(), places[1].stride());
    if constexpr (I == 2) _tile_loadd(2, places[2].data(), places[2].stride());
    if constexpr (I == 2 && J == 2) _tile_loadd(3, places[3].data(), places[3].stride());
  } else {
    _tile_zero(0);
    if constexpr (J == 2) _tile_zero(1);
    if constexpr (I == 2) _tile_zero(2);
    if constexpr (I == 2 && J == 2) _tile_zero(3);
  }
  for (int64_t t = 0; t < tiles; ++t, a += kTileSize, b += kTileSize) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (J == 2) {
      _tile_loadd(7, b + next, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (I == 2) {
      _tile_loadd(5, a + next, 64);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (J == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, places[0].data(), places[0].stride());
  if constexpr (J == 2) _tile_stored(1, places[1].data(), places[1].stride());
  if constexpr (I == 2) _tile_stored(2, places[2].data(), places[2].stride());
  if constexpr (I == 2 && J == 2) _tile_stored(3, places[3].data(), places[3].stride());
}

}  // namespace

bool has_pairs() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0;
}

#define BOCHNER_PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace {

/// The first `height` of I rows of J tiles of C, the last of which has `width` columns; all of them if `whole`. The
/// result is added to C if `adds`. A begins at a row of a tile and ends within that tile.
template <int I, int J, bool whole, bool adds>
BOCHNER_PAIRS inline void strip(int64_t tiles, const bfloat16* a, const bfloat16* b, float* c, int64_t ldc,
                                int64_t height, int64_t width) {
  const auto mask = [width](int j) { return static_cast<__mmask16>(j + 1 < J ? 0xFFFFU : (1U << width) - 1U); };
  __m512 sum[I][J];
#pragma GCC unroll 16
  for (int r = 0; r < I; ++r) {
    const float* const from = c + (whole || r < height ? r * ldc : 0);
#pragma GCC unroll 4
    for (int j = 0; j < J; ++j) {
      const float* const at = from + j * kBf16Tile;
      if (adds) __builtin_prefetch(at + I * ldc, 1);  // the rows below come next
      sum[r][j] = adds ? _mm512_maskz_loadu_ps(whole ? __mmask16{0xFFFF} : mask(j), at) : _mm512_setzero_ps();
    }
  }
  const int64_t next = tiles * kTileSize;
  for (int64_t t = 0; t < tiles; ++t, a += kTileSize, b += kTileSize) {
    for (int64_t p = 0; p < kBf16Tile; ++p) {
      __m512bh right[J];
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) {
        right[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + j * next + p * 2 * kBf16Tile));
      }
#pragma GCC unroll 16
      for (int r = 0; r < I; ++r) {
        int pair = 0;
        __builtin_memcpy(&pair, a + r * kBf16Depth + p * 2, sizeof(pair));
        const auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 4
        for (int j = 0; j < J; ++j) sum[r][j] = _mm512_dpbf16_ps(sum[r][j], left, right[j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < I; ++r) {
    if (!whole && r >= height) break;
    float* const to = c + r * ldc;
#pragma GCC unroll 4
    for (int j = 0; j < J; ++j) {
      whole ? _mm512_storeu_ps(to + j * kBf16Tile, sum[r][j])
            : _mm512_mask_storeu_ps(to + j * kBf16Tile, mask(j), sum[r][j]);
    }
  }
}

/// All rows of C in the columns of J tiles.
template <int I, int J, bool adds>
BOCHNER_PAIRS void strips(int64_t rows, int64_t width, int64_t tiles, const bfloat16* a, const bfloat16* b, float* c,
                          int64_t ldc) {
  for (int64_t i = 0; i < rows; i += I) {
    const bfloat16* const from = a + i / kBf16Tile * tiles * kTileSize + i % kBf16Tile * kBf16Depth;
    const auto run = rows - i >= I && width == kBf16Tile ? strip<I, J, true, adds> : strip<I, J, false, adds>;
    run(tiles, from, b, c + i * ldc, ldc, rows - i, width);
  }
}

template <bool adds>
BOCHNER_PAIRS void product(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                           int64_t ldc) {
  const int64_t tiles = ceil_div(depth, kBf16Depth);
  constexpr int64_t kWidth = 2 * kBf16Tile;
  for (int64_t j = 0; j < cols; j += kWidth) {
    const int64_t remaining = cols - j;
    const bfloat16* const from = b + j / kBf16Tile * tiles * kTileSize;
    if (remaining > kBf16Tile) {
      strips<8, 2, adds>(rows, std::min(remaining, kWidth) - kBf16Tile, tiles, a, from, c + j, ldc);
    } else {
      strips<16, 1, adds>(rows, remaining, tiles, a, from, c + j, ldc);
    }
  }
}

}  // namespace

void product_of_pairs(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                      int64_t ldc, bool accumulate) {
  (accumulate ? product<true> : product<false>)(rows, cols, depth, a, b, c, ldc);
}

bool has_tiles() {
  // From leaf 7 of cpuid: AMX-BF16 and AMX-TILE. The kernel grants a process the 8 KiB of registers on request
  // (ARCH_REQ_XCOMP_PERM for XTILEDATA, Linux 5.16 and later), for all its threads.
  uint32_t a = 7, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  const bool found = (d >> 22 & 1U) != 0 && (d >> 24 & 1U) != 0;
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return found && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

__attribute__((target("amx-tile,amx-bf16"))) void product_of_tiles(int64_t rows, int64_t cols, int64_t depth,
                                                                   const bfloat16* a, const bfloat16* b, float* c,
                                                                   int64_t ldc, bool accumulate) {
  _tile_loadconfig(&kShapes);
  const int64_t tiles = ceil_div(depth, kBf16Depth);
  const int64_t next = tiles * kTileSize;
  Place places[4];
  for (int64_t j = 0; j < cols; j += 2 * kBf16Tile) {
    for (int64_t i = 0; i < rows; i += 2 * kBf16Tile) {
      const bool two_rows = rows - i > kBf16Tile;
      const bool two_cols = cols - j > kBf16Tile;
      for (int64_t p = 0; p < 4; ++p) {
        const int64_t row = i + p / 2 * kBf16Tile;
        const int64_t col = j + p % 2 * kBf16Tile;
        if (row < rows && col < cols) places[p].set(c + row * ldc + col, ldc, rows - row, cols - col, accumulate);
      }
      const auto run = two_rows ? two_cols ? block<2, 2> : block<2, 1> : two_cols ? block<1, 2> : block<1, 1>;
      run(tiles, a + i / kBf16Tile * next, b + j / kBf16Tile * next, places);
      for (int64_t p = 0; p < 4; ++p) {
        if ((p < 2 || two_rows) && (p % 2 == 0 || two_cols)) places[p].finish();
      }
    }
  }
  _tile_release();
}

#else

bool has_pairs() { return false; }
bool has_tiles() { return false; }
void product_of_pairs(int64_t, int64_t, int64_t, const bfloat16*, const bfloat16*, float*, int64_t, bool) {
  internal_failure("a processor with AVX512-BF16", __FILE__, __LINE__);
}
void product_of_tiles(int64_t, int64_t, int64_t, const bfloat16*, const bfloat16*, float*, int64_t, bool) {
  internal_failure("a processor with AMX", __FILE__, __LINE__);
}

#endif

}  // namespace bochner::cpu::bf16_instructions
