// The passes before the tiles in causal kernel attention in bf16: packing, and running maxima.
#pragma once

#include "engine/cuda/attention/kernel/causal_tiles.h"
#include "engine/cuda/parts/elementwise.h"

namespace bochner::cuda {

/// to (jobs, padded, D) = x in bf16, 0 beyond the length and at hidden keys; one thread per eight numbers.
struct PackEights {
  int64_t heads, length, padded, dim;
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
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float value = whole ? static_cast<float>(eight.at[e]) : from.get(token, column + e);
        eight.at[e] = bfloat16(value);
      }
    }
    store(to + row * dim + column, eight);
  }
};

/// The numbers of one side that CausalShifts finds, (jobs, padded).
struct SideNumbers {
  const float* norms;
  float *less, *weight, *carry, *last;  ///< last: of keys
};

/// m (jobs, padded), the largest exponent that each query sees, r (jobs, tiles + 1), the largest before each tile, and
/// the numbers of both sides that follow from them; all are 0 if nothing is shifted. A team per tile.
struct CausalShifts {
  static constexpr size_t kShared = 0;
  FeatureRule<float> rule;
  int64_t heads, padded, length, key_length;
  KeyMask mask;
  const float *tops, *exponents, *largest;  ///< of TokenExponents
  SideNumbers queries, keys;
  const float* denominators;  ///< of queries in backward, (jobs, length); or null
  float *m, *r, *factor;      ///< factor: what G is multiplied by, (jobs, padded); it is part of the carry of queries

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = padded / kTile;
    const int64_t job = team.index() / tiles;
    const int64_t tile = team.index() % tiles;
    float before = no_exponent<float>();
    if (rule.shifts) {
      for (int64_t i = team.rank(); i < tile; i += team.size()) before = larger(largest[job * tiles + i], before);
    }
    before = rule.shifts ? team.max(before) : 0.0f;
    const float after = rule.shifts ? larger(largest[team.index()], before) : 0.0f;
    float* const border = r + job * (tiles + 1) + tile;
    if (team.rank() == 0) {
      border[0] = before;
      if (tile + 1 == tiles) border[1] = after;
    }
    for (int i = team.rank(); i < kTile; i += team.size()) {
      const int64_t token = tile * kTile + i;
      const int64_t at = job * padded + token;
      float seen = before;
      if (rule.shifts) {
#pragma unroll 16
        for (int j = 0; j < kTile; ++j) {
          const float next = exponents[at - i + j];
          seen = j <= i ? larger(next, seen) : seen;
        }
      }
      m[at] = seen;
      const bool real = token < key_length && mask.real(job / heads, token);
      find(queries, at, !rule.shifts, token < length, 0.0f);
      find(keys, at, true, real, seen);
      const bool divided = denominators != nullptr && token < length;
      const float by = divided ? inverse_in_gradients(denominators[job * length + token]) : 1.0f;
      factor[at] = by;
      queries.carry[at] = by * math::exp(before - seen);
      keys.carry[at] = math::exp(seen - after);
      keys.last[at] = real ? 1.0f : 0.0f;
    }
  }

 private:
  /// `by_norm`: whether |x|^2 is part of the exponents; those of queries have their own maxima as shifts.
  BOCHNER_DEVICE void find(const SideNumbers& side, int64_t at, bool by_norm, bool there, float shift) const {
    float off = 0;
    float by = there ? 1.0f : 0.0f;
    if (rule.exponential()) {
      off = by_norm ? side.norms[at] + shift : tops[at];
      off = there ? kLog2E * off : std::numeric_limits<float>::infinity();
    } else if (rule.exponent && there) {
      by = by_norm ? math::exp(side.norms[at] - shift) : 1.0f;
    }
    side.less[at] = off;
    side.weight[at] = by;
  }
};

}  // namespace bochner::cuda
