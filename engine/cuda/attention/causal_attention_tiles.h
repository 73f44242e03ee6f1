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
// comes from outside the chunk is `carry`. PackedFrequencies, Phi and rounding are those of kernel_attention_tiles.h.
#pragma once

#include "engine/cuda/attention/causal_sides.h"

namespace bochner::cuda {

/// A warp's 16 tokens, and what their outputs and denominators have added up to.
template <int D>
struct RunningOutputs {
  Left<D / 16> x;
  Sum<D / 8> o;
  RowValues less, weight, denominator;

  BOCHNER_DEVICE void load(const TokenSide& tokens, int64_t job, int64_t token) {
    const int64_t at = job * tokens.padded + token;
    x.load(tokens.x.at(job, token), tokens.x.tokens.stride);
    o.clear();
    less = RowValues::load(tokens.less + at);
    weight = RowValues::load(tokens.weight + at);
    denominator = RowValues::filled(0);
  }
};

/// A of each tile, (tiles of the slab, 64, 64), or its transpose, and w (jobs, padded); a block for a tile.
template <int D, Form form>
struct TileWeights {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kResident = kParts == 1 ? 3 : 2;
  using Tiles = FrequencyTiles<D, 0, kThreads>;
  static constexpr size_t kShared = Tiles::kShared + sizeof(bfloat16) * kTile * (kTile + kGap) + sizeof(float) * kTile;
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
    auto* memory = team.template shared<unsigned char>();
    const PackedSums none{};
    const Tiles tiles(omega, none, tile.job, tile.index, memory);
    auto* tile_phi = reinterpret_cast<bfloat16*>(memory + Tiles::kShared);
    auto* tops = reinterpret_cast<float*>(tile_phi + kTile * (kTile + kGap));
    begin_numbers<kTile, kThreads>(team, m + at, tops);
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
    tiles.template each<false>(team, [&](int buffer, int64_t from) {
      const bfloat16* tile_omega = tiles.omega_at(buffer);
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
    });
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
            visible ? fast_exp2(kLog2E * (tops[place.column] - own.m.at(place))) * value + own.sum.at(place) : 0.0f;
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
  using Tiles = FrequencyTiles<D, kParts, kThreads>;
  static constexpr size_t kShared = Tiles::kShared + sizeof(bfloat16) * kOnes * (kTile + kGap);
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
  OutputTokens out;

  struct Rows : RunningOutputs<D> {
    RowValues carry, w;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const TokenSide& tokens = own.tokens;
    auto* memory = team.template shared<bfloat16>();
    const Tiles tiles(omega, sums, tile.job, tile.index, team.template shared<unsigned char>());
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t at = tile.job * tokens.padded + tile.token + 16 * warp_of(team, s);
      rows[s].load(tokens, tile.job, tile.token + 16 * warp_of(team, s));
      rows[s].carry = RowValues::load(own.carry + at);
      rows[s].w = w == nullptr ? RowValues::filled(1) : RowValues::load(w + at);
    }
    tiles.template each<true>(team, [&](int buffer, int64_t) {
      for (int s = 0; s < kTokenShare; ++s) add(tiles, buffer, rows[s]);
    });
    // the chunk itself
    team.sync();
    bfloat16* tile_y = memory;
    bfloat16* ones = memory + Tiles::kShared / sizeof(bfloat16);
    const int64_t at = tile.job * tokens.padded + tile.token;
    begin_rows<D>(team, other.tokens.y, tile.job, tile.token, tile_y);
    spread<kOnes * kTile, kThreads>(team, [&](int i) {
      const float value = i < kTile ? other.tokens.last[at + i] : 0.0f;
      ones[i / kTile * (kTile + kGap) + i % kTile] = bfloat16(value);
    });
    wait_for_copies();
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
        mine.denominator = RowValues::of(joined(mine.denominator, Plus{}), mine.carry, Times{});
        mine.denominator = RowValues::of(mine.denominator, sum.rows(Plus{}), Plus{});
        if (total != nullptr) {
          mine.w.each([&](int, float& value) { value *= total[D]; });
          mine.denominator = RowValues::of(mine.denominator, mine.w, Plus{});
        }
        mine.denominator.each([&](int, float& value) { value += eps; });
      }
      divide(tile.job, token, mine);
    }
    store<D, 1, kWarps>(team, out, tile.job / omega.heads, tile.job % omega.heads, tile.token, tokens.length, memory,
                        [&](int s, int) -> Sum<D / 8>& { return rows[s].o; });
  }

 private:
  BOCHNER_DEVICE void add(const Tiles& tiles, int buffer, Rows& mine) const {
    Sum<kTile / 8> u;
    u.clear();
    multiply_rows(u, mine.x, tiles.omega_at(buffer), D + kGap);
    each_part<kParts>([&](auto part) {
      const float* z = tiles.z_at(buffer, part());
      Sum<kTile / 8> f = u;
      f.zip([&](Place at, float& value) {
        value = phi.template at<part()>(value, mine.less.at(at), mine.weight.at(at)).value + own.eps;
      });
      multiply_columns(mine.o, rounded<kTile / 16>(f), tiles.sums_at(buffer, part()), D + kGap);
      f.zip([&](Place at, float value) { mine.denominator.at(at) += value * z[at.column]; });
    });
  }
  BOCHNER_DEVICE void divide(int64_t job, int64_t token, Rows& mine) const {
    const int64_t length = own.tokens.length;
    mine.denominator.each([&](int row, float& value) {
      if (denominators == nullptr) {
        value = 1;
      } else if (RowValues::first() && token + row < length) {
        denominators[job * length + token + row] = value;
      }
      const bool real = token + row < length && mask.real(job / omega.heads, token + row);
      value = real ? inverse_of_weights(value) : 0.0f;
    });
    mine.o.zip([&](Place at, float& value) {
      const float inverse = mine.denominator.at(at);
      value = inverse != 0 ? value * inverse : 0.0f;
    });
  }
};

}  // namespace bochner::cuda
