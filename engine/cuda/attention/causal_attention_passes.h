// The passes between the tiles of causal kernel attention in bf16: running maxima, and sums over tiles.
#pragma once

#include "engine/cuda/attention/causal_attention_tiles.h"
#include "engine/cuda/parts/elementwise.h"

namespace bochner::cuda {

/// to (jobs, padded, D) = x in bf16, 0 beyond the length and at hidden keys; a thread for each eight numbers.
struct PackEights {
  int64_t heads, length, padded, dim;
  const float* denominators;  ///< (jobs, length): x is divided by them, unless null; division by 0 gives 0
  StoredTokens x;
  bool whole;  ///< rows of bf16, each aligned to 16 bytes
  KeyMask mask;
  bfloat16* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t each = dim / 8;
    const int64_t row = i / each;
    const int64_t column = i % each * 8;
    const int64_t job = row / padded;
    const int64_t token = row % padded;
    Vector<bfloat16, 8> eight{};
    if (token < length && mask.real(job / heads, token)) {
      const StoredTokens::Head from = x.head(job / heads, job % heads);
      if (whole) {
        eight = load<8>(static_cast<const bfloat16*>(from.data) + from.begin + token * from.stride + column);
      }
      const float by = denominators == nullptr ? 1.0f : inverse_in_gradients(denominators[job * length + token]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float value = whole ? static_cast<float>(eight.at[e]) : from.get(token, column + e);
        eight.at[e] = bfloat16(by * value);
      }
    }
    store(to + row * dim + column, eight);
  }
};

/// The largest exponents of real keys, (jobs, padded).
struct KeyTops {
  int64_t heads, length, padded;
  bool exponential;
  KeyMask mask;
  const float *norms, *tops;  ///< (jobs, padded)
  float* exponents;
  BOCHNER_DEVICE void operator()(int64_t at) const {
    const int64_t token = at % padded;
    const bool real = token < length && mask.real(at / padded / heads, token);
    exponents[at] = !real ? no_exponent<float>() : (exponential ? tops[at] - norms[at] : norms[at]);
  }
};

/// The largest of each tile, (jobs, tiles); a team for each.
struct TileTops {
  const float* exponents;
  float* largest;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    float value = no_exponent<float>();
    for (int i = team.rank(); i < kTile; i += team.size()) {
      const float next = exponents[team.index() * kTile + i];
      value = next > value ? next : value;
    }
    value = team.max(value);
    if (team.rank() == 0) largest[team.index()] = value;
  }
};

/// r (jobs, tiles + 1) from the tops of tiles: the largest before each; a team for each.
struct TopsBefore {
  int64_t tiles;
  const float* largest;
  float* r;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t before = team.index() % (tiles + 1);
    const float* from = largest + team.index() / (tiles + 1) * tiles;
    float value = no_exponent<float>();
    for (int64_t tile = team.rank(); tile < before; tile += team.size()) {
      value = from[tile] > value ? from[tile] : value;
    }
    value = team.max(value);
    if (team.rank() == 0) r[team.index()] = value;
  }
};

/// m (jobs, padded): a thread for each token.
struct TopsSeen {
  int64_t tiles;
  const float *exponents, *r;
  float* m;
  BOCHNER_DEVICE void operator()(int64_t at) const {
    const int64_t tile = at / kTile;
    const float* border = r + tile + tile / tiles;
    float value = border[0];
    for (int64_t token = tile * kTile; token <= at; ++token) {
      value = exponents[token] > value ? exponents[token] : value;
    }
    m[at] = value;
  }
};

/// `less`, `weight`, `carry` and, for keys, `last`; m and r are 0 if nothing is shifted.
struct CausalScales {
  FeatureRule<float> rule;
  int64_t heads, length, padded;
  bool keys;
  KeyMask mask;
  const float *norms, *tops, *m, *r;
  float *less, *weight, *carry, *last;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / padded;
    const int64_t tile = i % padded / kTile;
    const float* border = r + job * (padded / kTile + 1) + tile;
    const bool there = i % padded < length && mask.real(job / heads, i % padded);
    const bool by_key = keys || !rule.shifts;
    float off = 0;
    float by = there ? 1.0f : 0.0f;
    if (rule.exponential()) {
      off = by_key ? norms[i] + (keys ? m[i] : 0.0f) : tops[i];
      off = there ? kLog2E * off : std::numeric_limits<float>::infinity();
    } else if (rule.exponent && there) {
      by = by_key ? math::exp(norms[i] - (keys ? m[i] : 0.0f)) : 1.0f;
    }
    less[i] = off;
    weight[i] = by;
    carry[i] = math::exp(keys ? m[i] - border[1] : border[0] - m[i]);
    if (keys) last[i] = there ? 1.0f : 0.0f;
  }
};

/// Sums of weighted y' over each tile, (tiles of the slab, D + 1); a thread for each.
struct TotalsOfTiles {
  int64_t dim;
  TokenSide tokens;
  Slab slab;
  const float* w;  ///< (jobs, padded), or null for 1
  float* totals;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const Slab::Tile tile = slab.at(i / (dim + 1));
    const int64_t column = i % (dim + 1);
    const int64_t at = tile.job * tokens.padded + tile.token;
    const bfloat16* y = tokens.y.at(tile.job, tile.token);
    const int64_t stride = tokens.y.tokens.stride;
    float sum = 0;
#pragma unroll 16
    for (int64_t j = 0; j < kTile; ++j) {
      const float value = column < dim ? static_cast<float>(y[j * stride + column]) : tokens.last[at + j];
      sum += (w == nullptr ? 1.0f : w[at + j]) * value;
    }
    totals[i] = sum;
  }
};

/// Replaces the totals of each tile by those of all tiles before it, or, backward, after it; a thread for each
/// (job, column).
struct ScanTotals {
  int64_t width;
  Slab slab;
  bool backward;
  int64_t segment, segments, state;  ///< of `saved`, as in ScanTiles
  float *totals, *carried;           ///< carried (jobs, D + 1)
  float* saved;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    constexpr int kAhead = 8;
    float value = carried[i];
    for (int64_t begin = 0; begin < slab.count; begin += kAhead) {
      float* places[kAhead];
      float added[kAhead];
#pragma unroll
      for (int step = 0; step < kAhead; ++step) {
        const int64_t last = begin + step < slab.count ? begin + step : slab.count - 1;
        const int64_t tile = backward ? slab.count - 1 - last : last;
        places[step] = totals + (i / width * slab.count + tile) * width + i % width;
        added[step] = *places[step];
      }
#pragma unroll
      for (int step = 0; step < kAhead; ++step) {
        if (begin + step >= slab.count) break;
        const int64_t tile = backward ? slab.count - 1 - begin - step : begin + step;
        if (saved != nullptr && (slab.first + tile) % segment == 0)
          saved[(i / width * segments + (slab.first + tile) / segment) * state + i % width] = value;
        *places[step] = value;
        value += added[step];
      }
    }
    carried[i] = value;
  }
};

}  // namespace bochner::cuda
