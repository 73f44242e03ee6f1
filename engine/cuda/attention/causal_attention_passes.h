// The passes between the tiles of causal kernel attention in bf16: running maxima, and sums over tiles.
#pragma once

#include "engine/cuda/attention/causal_attention_tiles.h"

namespace bochner::cuda {

/// The largest exponent of the real keys of each tile, (jobs, tiles).
struct TileTops {
  int64_t heads, length, padded;
  bool exponential;
  KeyMask mask;
  const float *norms, *tops;  ///< (jobs, padded)
  float* largest;
  BOCHNER_DEVICE float exponent(int64_t job, int64_t token) const {
    if (token >= length || !mask.real(job / heads, token)) return no_exponent<float>();
    const int64_t at = job * padded + token;
    return exponential ? tops[at] - norms[at] : norms[at];
  }
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / (padded / kTile);
    const int64_t first = i % (padded / kTile) * kTile;
    float value = no_exponent<float>();
    for (int64_t token = first; token < first + kTile; ++token) {
      const float next = exponent(job, token);
      value = next > value ? next : value;
    }
    largest[i] = value;
  }
};

/// r (jobs, tiles + 1) from the tops of tiles: a thread for each job.
struct TopsBefore {
  int64_t tiles;
  const float* largest;
  float* r;
  BOCHNER_DEVICE void operator()(int64_t job) const {
    float value = no_exponent<float>();
    for (int64_t tile = 0; tile < tiles; ++tile) {
      r[job * (tiles + 1) + tile] = value;
      const float next = largest[job * tiles + tile];
      value = next > value ? next : value;
    }
    r[job * (tiles + 1) + tiles] = value;
  }
};

/// m (jobs, padded): a thread for each tile.
struct TopsSeen {
  TileTops exponents;
  const float* r;
  float* m;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t tiles = exponents.padded / kTile;
    const int64_t job = i / tiles;
    const int64_t first = i % tiles * kTile;
    float value = r[job * (tiles + 1) + i % tiles];
    for (int64_t token = first; token < first + kTile; ++token) {
      const float next = exponents.exponent(job, token);
      value = next > value ? next : value;
      m[job * exponents.padded + token] = value;
    }
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

/// Turns what each tile of a slab adds into the state before each tile (R: after each tile, from the last to the
/// first), in the layouts that outputs (`columns`) and gradients (`rows`) read. A thread for each padded element of S',
/// whose last column is z.
struct ScanTiles {
  int64_t frequencies, padded, dim, tiles;  ///< tiles: of all, in each job
  int parts;
  Slab slab;
  bool backward;
  const float* r;      ///< (jobs, tiles + 1)
  const float* added;  ///< (tiles of the slab, F, D + 1)
  float* carried;      ///< (jobs, F, D + 1), from slab to slab
  float* saved;        ///< the states before every `segment` tiles, (jobs, segments, state), or null
  int64_t segment, segments, state;
  bfloat16 *rows, *columns;  ///< either may be null
  float* z;

  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % (dim + 1);
    const int64_t frequency = i / (dim + 1) % padded;
    const int64_t part = i / (dim + 1) / padded % parts;
    const int64_t job = i / (dim + 1) / padded / parts;
    const bool there = frequency < frequencies;
    const int64_t size = parts * frequencies * (dim + 1);
    const int64_t at = (part * frequencies + frequency) * (dim + 1) + column;
    float value = there ? carried[job * size + at] : 0.0f;
    for (int64_t step = 0; step < slab.count; ++step) {
      const int64_t tile = backward ? slab.count - 1 - step : step;
      const int64_t index = job * slab.count + tile;
      const float* border = r + job * (tiles + 1) + slab.first + tile;
      if (there && saved != nullptr && (slab.first + tile) % segment == 0)
        saved[(job * segments + (slab.first + tile) / segment) * state + at] = value;
      const int64_t row = (index * parts + part) * padded + frequency;
      if (column == dim) {
        z[row] = value;
      } else {
        if (rows != nullptr) rows[row * dim + column] = bfloat16(value);
        if (columns != nullptr) columns[((index * parts + part) * dim + column) * padded + frequency] = bfloat16(value);
      }
      if (there) value = value * math::exp(border[0] - border[1]) + added[index * size + at];
    }
    if (there) carried[job * size + at] = value;
  }
};

/// carried (jobs, F, D + 1) = the saved state before a slab.
struct LoadState {
  int64_t size, index, segments, state;
  const float* saved;
  float* carried;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    carried[i] = saved[(i / size * segments + index) * state + i % size];
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
    const bfloat16* y = tokens.yt + (tile.job * dim + column) * tokens.padded + tile.token;
    float sum = 0;
    for (int64_t j = 0; j < kTile; ++j) {
      const float value = column < dim ? static_cast<float>(y[j]) : tokens.last[at + j];
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
    float value = carried[i];
    for (int64_t step = 0; step < slab.count; ++step) {
      const int64_t tile = backward ? slab.count - 1 - step : step;
      float& place = totals[(i / width * slab.count + tile) * width + i % width];
      if (saved != nullptr && (slab.first + tile) % segment == 0)
        saved[(i / width * segments + (slab.first + tile) / segment) * state + i % width] = value;
      const float added = place;
      place = value;
      value += added;
    }
    carried[i] = value;
  }
};

/// flows = eps (flows + T_c . G'), for the queries of a slab; a team for each.
struct FinishFlows {
  int64_t dim;
  float eps;
  TokenSide queries;
  Slab slab;
  const float* totals;
  float* flows;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index() / kTile);
    const int64_t at = tile.job * queries.padded + tile.token + team.index() % kTile;
    const float* total = totals + tile.index * (dim + 1);
    float sum = 0;
    for (int64_t e = team.rank(); e <= dim; e += team.size()) {
      sum += total[e] * (e < dim ? static_cast<float>(queries.y[at * dim + e]) : queries.last[at]);
    }
    sum = team.sum(sum);
    if (team.rank() == 0) flows[at] = eps * (flows[at] + sum);
  }
};

}  // namespace bochner::cuda
