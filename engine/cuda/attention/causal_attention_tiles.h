// The products of causal kernel attention on tensor cores, with the letters of causal_kernel_attention.cu. A chunk
// there is a tile of 64 tokens here. What a token gets from earlier chunks comes through their sums S_c, as in
// kernel_attention_tiles.h, and what it gets from its own chunk through a matrix of 64 x 64 weights:
//
//   F_q,i = phi(q_i) + eps,   F_k,j = phi(k_j),   exponents shifted by each token's own maximum;   w_i = eps f_i + s^2
//   A_ij   = e^(m_j - m_i) F_q,i . F_k,j + w_i,   D_ij = e^(m_j - m_i) G'_i . v'_j                       for j <= i
//   O'_i   = e^(r_c - m_i) S_c^T F_q,i + sum_j A_ij v'_j + w_i T_c
//   dF_q,i = e^(r_c - m_i) S_c G'_i + sum_j D_ij F_k,j + eps G'_i . (T_c + v'_(c,0) + ... + v'_i)
//   dF_k,j = e^(m_j - r_(c+1)) R_(c+1) v'_j + sum_i D_ij F_q,i
//   dv'_j  = e^(m_j - r_(c+1)) R_(c+1)^T F_k,j + sum_i A_ij G'_i + t_(c+1)
//
// Queries and keys go through the same kernels: `own` is one side, `other` the other, and the factor in front of what
// comes from outside the chunk is `carry`. PackedFrequencies, TokenSide, Phi and rounding are those of
// kernel_attention_tiles.h.
#pragma once

#include "engine/cuda/attention/kernel_attention_tiles.h"

namespace bochner::cuda {

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
  BOCHNER_DEVICE void load(const Team& team, const CausalSide& side, int64_t at) const {
    TileScales::load(team, side.tokens, at);
    for (int i = team.rank(); i < kTile; i += team.size()) carry[i] = side.carry[at + i];
  }
};

/// What each tile of keys adds to S_c, or each tile of queries to R_c: (tiles of the slab, F, D + 1); a block for each
/// tile.
template <int D, Form form>
struct TileSums {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared = sizeof(bfloat16) * 2 * kTile * (D + kGap) + CarriedScales::kBytes;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own;
  Slab slab;
  float* sums;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const TokenSide& tokens = own.tokens;
    const int64_t at = tile.job * tokens.padded + tile.token;
    auto* tile_x = team.template shared<bfloat16>();
    bfloat16* tile_y = tile_x + kTile * (D + kGap);
    const CarriedScales scales(reinterpret_cast<float*>(tile_y + kTile * (D + kGap)));
    load_rows<D>(team, tokens.x, tile.job, tile.token, tile_x);
    load_rows<D>(team, tokens.y, tile.job, tile.token, tile_y);
    scales.load(team, own, at);
    team.sync();
    for (int64_t m = 0; m < omega.padded; m += kTile) {
      for (int s = 0; s < kTokenShare; ++s) {
        const int64_t first = m + 16 * warp_of(team, s);
        Left<D / 16> frequencies;
        frequencies.load(omega.rows + (omega.place(tile.job) + first) * D, D);
        Sum<kTile / 8> u;
        u.clear();
        multiply_rows(u, frequencies, tile_x, D + kGap);
        each_part<kParts>([&](auto part) {
          Sum<kTile / 8> f = u;
          f.each([&](int, int column, float& value) {
            const float feature = phi.template at<part()>(value, scales.less[column], scales.weight[column]).value;
            value = (feature + own.eps) * scales.carry[column];
          });
          Sum<D / 8> sum;
          sum.clear();
          multiply_columns(sum, rounded<kTile / 16>(f), tile_y, D + kGap);
          f.each([&](int, int column, float& value) { value *= scales.last[column]; });
          RowValues z = f.rows(Plus{});
          write_sums<D>(sum, z, first, omega.count, sums + (tile.index * kParts + part()) * omega.count * (D + 1));
        });
      }
    }
  }
};

/// A of each tile, (tiles of the slab, 64, 64), or its transpose, and w (jobs, padded); a block for a tile.
template <int D, Form form>
struct TileWeights {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared =
      sizeof(bfloat16) * (kTile * (D + kGap) + kTile * (kTile + kGap)) + sizeof(float) * kTile;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide queries, keys;
  Slab slab;
  float eps, square;  ///< square: s^2
  const float* m;     ///< (jobs, padded)
  bool transposed;
  bfloat16* A;
  float* w;

  struct Rows {
    Left<D / 16> q, k;
    Sum<kTile / 8> uq, uk, a;
    RowValues less_q, weight_q, less_k, weight_k, sum, m;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const int64_t at = tile.job * queries.tokens.padded + tile.token;
    auto* tile_omega = team.template shared<bfloat16>();
    bfloat16* tile_phi = tile_omega + kTile * (D + kGap);
    auto* tops = reinterpret_cast<float*>(tile_phi + kTile * (kTile + kGap));
    for (int i = team.rank(); i < kTile; i += team.size()) tops[i] = m[at + i];
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      Rows& own = rows[s];
      const int64_t first = at + 16 * warp_of(team, s);
      const int64_t token = tile.token + 16 * warp_of(team, s);
      own.q.load(queries.tokens.x.at(tile.job, token), queries.tokens.x.tokens.stride);
      own.k.load(keys.tokens.x.at(tile.job, token), keys.tokens.x.tokens.stride);
      own.less_q = RowValues::load(queries.tokens.less + first);
      own.weight_q = RowValues::load(queries.tokens.weight + first);
      own.less_k = RowValues::load(keys.tokens.less + first);
      own.weight_k = RowValues::load(keys.tokens.weight + first);
      own.m = RowValues::load(m + first);
      own.sum = RowValues::filled(0);
      own.a.clear();
    }
    for (int64_t from = 0; from < omega.padded; from += kTile) {
      team.sync();
      load_frequencies<D>(team, omega, tile.job, from, tile_omega);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        rows[s].uq.clear();
        multiply_rows(rows[s].uq, rows[s].q, tile_omega, D + kGap);
        rows[s].uk.clear();
        multiply_rows(rows[s].uk, rows[s].k, tile_omega, D + kGap);
      }
      each_part<kParts>([&](auto part) {
        if (part() > 0) team.sync();
        for (int s = 0; s < kTokenShare; ++s) {
          Rows& own = rows[s];
          bfloat16* to = tile_phi + 16 * warp_of(team, s) * (kTile + kGap);
          Sum<kTile / 8> f = own.uk;
          f.zip([&](Place place, float& value) {
            value = phi.template at<part()>(value, own.less_k.at(place), own.weight_k.at(place)).value;
          });
          put_rows(f, to, kTile + kGap);
        }
        team.sync();
        for (int s = 0; s < kTokenShare; ++s) {
          Rows& own = rows[s];
          Sum<kTile / 8> f = own.uq;
          f.zip([&](Place place, float& value) {
            const auto feature = phi.template at<part()>(value, own.less_q.at(place), own.weight_q.at(place));
            value = from + place.column < omega.count ? feature.value + queries.eps : 0.0f;
          });
          const auto features = rounded<kTile / 16>(f);
          own.sum = RowValues::of(own.sum, f.rows(Plus{}), Plus{});
          multiply_rows(own.a, features, tile_phi, kTile + kGap);
        }
      });
    }
    bfloat16* to = A + tile.index * kTile * kTile;
    for (int s = 0; s < kTokenShare; ++s) {
      Rows& own = rows[s];
      const int first = 16 * warp_of(team, s);
      own.sum.each([&](int row, float& value) {
        value = eps * value + square;
        if (RowValues::first()) w[at + first + row] = value;
      });
      own.a.zip([&](Place place, const float& value) {
        const int row = first + place.row;
        const bool visible = place.column <= row;
        const float weight =
            visible ? math::exp(tops[place.column] - own.m.at(place)) * value + own.sum.at(place) : 0.0f;
        to[transposed ? place.column * kTile + row : row * kTile + place.column] = bfloat16(weight);
      });
    }
  }
};

/// O and the denominators of queries, or dV of keys; a block for each tile.
template <int D, Form form>
struct CausalOutputs {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kOnes = 8;  ///< rows of a tile whose first is `last` of the other side
  static constexpr size_t kShared = kOutputTiles<D, kParts> + sizeof(bfloat16) * kOnes * (kTile + kGap);
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own, other;
  Slab slab;
  PackedSums sums;         ///< of each tile of the slab
  const bfloat16* within;  ///< A, or its transpose for keys
  const float* totals;     ///< (tiles of the slab, D + 1): T_c, or t_(c+1); or null
  const float* w;          ///< (jobs, padded): weights of totals, or null for 1
  KeyMask mask;
  float eps;            ///< of the denominators
  float* denominators;  ///< (jobs, length), or null: the outputs are not divided
  StoredTokens to;

  struct Rows : RunningOutputs<D> {
    RowValues carry, w;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const TokenSide& tokens = own.tokens;
    auto* memory = team.template shared<bfloat16>();
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t at = tile.job * tokens.padded + tile.token + 16 * warp_of(team, s);
      rows[s].load(tokens, tile.job, tile.token + 16 * warp_of(team, s));
      rows[s].carry = RowValues::load(own.carry + at);
      rows[s].w = w == nullptr ? RowValues::filled(1) : RowValues::load(w + at);
    }
    add_outputs<D>(
        team, phi, omega, tile.job, sums, tile.index, [&](float value) { return value + own.eps; }, memory, rows);
    // the chunk itself
    team.sync();
    bfloat16* tile_y = memory + kTile * (D + kGap);
    bfloat16* ones = memory + kOutputTiles<D, kParts> / sizeof(bfloat16);
    const int64_t at = tile.job * tokens.padded + tile.token;
    load_rows<D>(team, other.tokens.y, tile.job, tile.token, tile_y);
    for (int i = team.rank(); i < kOnes * kTile; i += team.size()) {
      const float value = i < kTile ? other.tokens.last[at + i] : 0.0f;
      ones[i / kTile * (kTile + kGap) + i % kTile] = bfloat16(value);
    }
    team.sync();
    const float* total = totals == nullptr ? nullptr : totals + tile.index * (D + 1);
    for (int s = 0; s < kTokenShare; ++s) {
      Rows& mine = rows[s];
      const int64_t token = tile.token + 16 * warp_of(team, s);
      Left<kTile / 16> weights;
      weights.load(within + (tile.index * kTile + 16 * warp_of(team, s)) * kTile, kTile);
      mine.o.zip([&](Place place, float& value) { value *= mine.carry.at(place); });
      multiply_columns(mine.o, weights, tile_y, D + kGap);
      if (total != nullptr) {
        mine.o.zip([&](Place place, float& value) { value += mine.w.at(place) * total[place.column]; });
      }
      if (denominators != nullptr) {
        Sum<1> sum;
        sum.clear();
        multiply(sum, weights, ones, kTile + kGap);
        mine.denominator = RowValues::of(mine.denominator, mine.carry, Times{});
        mine.denominator = RowValues::of(mine.denominator, sum.rows(Plus{}), Plus{});
        if (total != nullptr) {
          mine.w.each([&](int, float& value) { value *= total[D]; });
          mine.denominator = RowValues::of(mine.denominator, mine.w, Plus{});
        }
        mine.denominator.each([&](int, float& value) { value += eps; });
      }
      OutputRows<D>{omega.heads, tokens, mask, denominators, to}.write(tile.job, token, mine);
    }
  }
};

}  // namespace bochner::cuda
