// The tokens in causal kernel attention on tensor cores, in tiles of 64, with numbers for each token and their
// exponents.
#pragma once

#include "engine/cuda/attention/kernel/tiles.h"

namespace bochner::cuda {

constexpr int kWarps = 4;  // of a block: 64 tokens, or frequencies
constexpr int kThreads = 32 * kWarps;
constexpr int kTokenShare = kWarpShare<kWarps>;

/// The tokens of each head, in place or packed.
struct HeadRows {
  int64_t heads;
  Tokens<const bfloat16> tokens;

  /// The tokens of job b * heads + h from `token` on.
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

/// Starts to load a tile of 64 rows.
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

/// c |x|^2 of each token, the largest u (or |u|) of each query, and the exponents of keys, (jobs, padded), with the
/// largest of each tile, (jobs, tiles). One block per tile of both sides.
template <int D, Form form>
struct TokenExponents {
  using Tiles = FrequencyTiles<D, 0, kThreads>;
  static constexpr size_t kShared = Tiles::kShared;
  static constexpr bool kExponential = form == Form::positive || form == Form::hyperbolic;
  PackedFrequencies omega;
  TokenSide queries, keys;
  KeyMask mask;
  float scale, norm_factor;
  bool shifts;  ///< or only norms
  float *norms, *tops, *key_norms, *exponents, *largest;

  struct Rows {  // of queries, then of keys
    Left<D / 16> x[2];
    RowValues norm[2], top[2];
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / (queries.padded / kTile);
    const int64_t token = team.index() % (queries.padded / kTile) * kTile;
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t first = token + 16 * warp_of(team, s);
      rows[s].x[0].load(queries.x.at(job, first), queries.x.tokens.stride);
      rows[s].x[1].load(keys.x.at(job, first), keys.x.tokens.stride);
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        float* const to = side == 0 ? norms : key_norms;
        rows[s].top[side] = RowValues::filled(kExponential ? no_exponent<float>() : 0.0f);
        rows[s].norm[side] = dots(rows[s].x[side], rows[s].x[side]);
        rows[s].norm[side].each([&](int row, float& value) {
          value *= norm_factor;
          if (RowValues::first()) to[job * queries.padded + first + row] = value;
        });
      }
    }
    if (!shifts) return;
    if constexpr (kExponential) find_tops(team, job, rows);
    float most = no_exponent<float>();
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t first = token + 16 * warp_of(team, s);
      const int64_t at = job * queries.padded + first;
      rows[s].top[0].each([&](int row, float& value) {
        if (RowValues::first()) tops[at + row] = value;
      });
      RowValues exponent = RowValues::of(rows[s].top[1], rows[s].norm[1],
                                         [](float top, float norm) { return kExponential ? top - norm : norm; });
      exponent.each([&](int row, float& value) {
        const bool real = first + row < keys.length && mask.real(job / omega.heads, first + row);
        value = real ? value : no_exponent<float>();
        most = larger(value, most);
        if (RowValues::first()) exponents[at + row] = value;
      });
    }
    most = team.max(most);
    if (team.rank() == 0) largest[team.index()] = most;
  }

 private:
  template <class Team>
  BOCHNER_DEVICE void find_tops(const Team& team, int64_t job, Rows* rows) const {
    const PackedSums none{};
    const Tiles tiles(omega, none, job, job, team.template shared<unsigned char>());
    constexpr int kAtOnce = 32;  // frequencies
    tiles.template each<false>(team, [&](int buffer, int64_t) {
      for (int s = 0; s < kTokenShare; ++s) {
        for (int f = 0; f < kTile; f += kAtOnce) {
          Sum<kAtOnce / 8> u[2];
          u[0].clear();
          u[1].clear();
          multiply_rows(u, rows[s].x, tiles.omega_at(buffer) + f * Tiles::kStride, Tiles::kStride);
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            u[side].zip([&](Place at, float value) {
              value *= scale;
              if constexpr (form == Form::hyperbolic) value = math::abs(value);
              float& top = rows[s].top[side].at(at);
              top = larger(value, top);
            });
          }
        }
      }
    });
    for (int s = 0; s < kTokenShare; ++s) {
#pragma unroll
      for (int side = 0; side < 2; ++side) rows[s].top[side] = joined(rows[s].top[side], Larger{});
    }
  }
};

/// Tiles first ... first + count - 1 of each job; the matrices and sums of a slab are stored in this order.
struct Slab {
  int64_t first, count;

  struct Tile {
    int64_t job, index;  ///< index: among the slab's matrices
    int64_t token;       ///< the first one, within its job
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
