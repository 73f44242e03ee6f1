// The tokens of causal kernel attention on tensor cores, in tiles of 64, with numbers for each token, and their
// exponents.
#pragma once

#include "engine/cuda/attention/kernel_attention_tiles.h"

namespace bochner::cuda {

constexpr int kWarps = 4;  // of a block: 64 tokens, or frequencies
constexpr int kThreads = 32 * kWarps;
constexpr int kTokenShare = kWarpShare<kWarps>;

/// Tokens of each head, where they are or packed.
struct HeadRows {
  int64_t heads;
  Tokens<const bfloat16> tokens;

  /// Those from `token` on of a job, b * heads + h.
  BOCHNER_DEVICE const bfloat16* at(int64_t job, int64_t token) const {
    return tokens.head(job / heads, job % heads) + token * tokens.stride;
  }
};

/// Tokens of one side in whole tiles, with numbers for each, (jobs, padded).
struct TokenSide {
  int64_t length, padded;
  HeadRows x, y;  ///< y: V or G
  const float *less, *weight, *last;
};

/// Begins to load a tile of 64 rows.
template <int D, class Team>
BOCHNER_DEVICE void begin_rows(const Team& team, const HeadRows& rows, int64_t job, int64_t token, bfloat16* tile) {
  begin_tile<D, kTile, kThreads>(team, rows.at(job, token), rows.tokens.stride, tile, D + kGap);
}

/// `less`, `weight` and `last` of a tile of tokens, in shared memory.
struct TileScales {
  float *less, *weight, *last;
  static constexpr size_t kBytes = sizeof(float) * 3 * kTile;

  BOCHNER_DEVICE explicit TileScales(float* memory) : less(memory), weight(less + kTile), last(weight + kTile) {}
  template <class Team>
  BOCHNER_DEVICE void begin(const Team& team, const TokenSide& tokens, int64_t at) const {
    begin_numbers<kTile, kThreads>(team, tokens.less + at, less);
    begin_numbers<kTile, kThreads>(team, tokens.weight + at, weight);
    begin_numbers<kTile, kThreads>(team, tokens.last + at, last);
  }
};

/// Of each token c |x|^2 and, unless `tops` is null, the largest u, or |u|; (jobs, padded).
template <int D, Form form>
struct TokenExponents {
  using Tiles = FrequencyTiles<D, 0, kThreads>;
  static constexpr size_t kShared = Tiles::kShared;
  PackedFrequencies omega;
  TokenSide tokens;
  float scale, norm_factor;
  float *norms, *tops;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / (tokens.padded / kTile);
    const int64_t first = team.index() % (tokens.padded / kTile) * kTile;
    RowValues top[kTokenShare];
    Left<D / 16> x[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      x[s].load(tokens.x.at(job, first + 16 * warp_of(team, s)), tokens.x.tokens.stride);
      top[s] = RowValues::filled(no_exponent<float>());
      dots(x[s], x[s]).each([&](int row, float& value) {
        if (RowValues::first()) norms[job * tokens.padded + first + 16 * warp_of(team, s) + row] = norm_factor * value;
      });
    }
    if constexpr (form == Form::positive || form == Form::hyperbolic) {
      if (tops != nullptr) find_tops(team, job, first, x, top);
    }
  }

 private:
  template <class Team>
  BOCHNER_DEVICE void find_tops(const Team& team, int64_t job, int64_t first, Left<D / 16>* x, RowValues* top) const {
    const PackedSums none{};
    const Tiles tiles(omega, none, job, job, team.template shared<unsigned char>());
    tiles.template each<false>(team, [&](int buffer, int64_t) {
      for (int s = 0; s < kTokenShare; ++s) {
        Sum<kTile / 8> u;
        u.clear();
        multiply_rows(u, x[s], tiles.omega_at(buffer), D + kGap);
        u.each([&](int, int, float& value) {
          value *= scale;
          if constexpr (form == Form::hyperbolic) value = math::abs(value);
        });
        top[s] = RowValues::of(top[s], u.rows(Larger{}), Larger{});
      }
    });
    for (int s = 0; s < kTokenShare; ++s) {
      top[s].each([&](int row, float& value) {
        if (RowValues::first()) tops[job * tokens.padded + first + 16 * warp_of(team, s) + row] = value;
      });
    }
  }
};

/// Tiles first ... first + count - 1 of each job; matrices and sums of a slab lie in this order.
struct Slab {
  int64_t first, count;

  struct Tile {
    int64_t job, index;  ///< index: in the slab's matrices
    int64_t token;       ///< the first, in its job
  };
  BOCHNER_DEVICE Tile at(int64_t i) const { return {i / count, i, (first + i % count) * kTile}; }
};

/// One side, (jobs, padded, ...), in whole tiles.
struct CausalSide {
  TokenSide tokens;
  const float* carry;
  const float* flow;  ///< what is added to each dF, or null
  float eps;          ///< of its features
};

struct Times {
  BOCHNER_DEVICE float operator()(float a, float b) const { return a * b; }
};

/// TileScales with `carry`.
struct CarriedScales : TileScales {
  float* carry;
  static constexpr size_t kBytes = TileScales::kBytes + sizeof(float) * kTile;

  BOCHNER_DEVICE explicit CarriedScales(float* memory) : TileScales(memory), carry(last + kTile) {}
  template <class Team>
  BOCHNER_DEVICE void begin(const Team& team, const CausalSide& side, int64_t at) const {
    TileScales::begin(team, side.tokens, at);
    begin_numbers<kTile, kThreads>(team, side.carry + at, carry);
  }
};

}  // namespace bochner::cuda
