// The products of causal kernel attention on tensor cores, in the notation of causal_attention.cu. A chunk there is a
// tile of 64 tokens here. What a token gets from earlier chunks comes through their sums S_c, as in tiles.h, and what
// it gets from its own chunk through a matrix of 64 x 64 weights:
//
//   F_q,i = phi(q_i) + eps,   F_k,j = phi(k_j),   exponents shifted by each token's own maximum;   w_i = eps f_i + s^2
//   A_ij   = e^(m_j - m_i) F_q,i . F_k,j + w_i,   D_ij = e^(m_j - m_i) G'_i . v'_j                       for j <= i
//   O'_i   = e^(r_c - m_i) S_c^T F_q,i + sum_j A_ij v'_j + w_i T_c
//   dF_q,i = e^(r_c - m_i) S_c G'_i + sum_j D_ij F_k,j + eps G'_i . (T_c + v'_(c,0) + ... + v'_i)
//   dF_k,j = e^(m_j - r_(c+1)) R_(c+1) v'_j + sum_i D_ij F_q,i
//   dv'_j  = e^(m_j - r_(c+1)) R_(c+1)^T F_k,j + sum_i A_ij G'_i + t_(c+1)
//
// The same kernels serve queries and keys: `own` is one side, `other` the other, and `carry` is the factor in front of
// what comes from outside the chunk. A and D are computed in the registers in which they are used. For
// PackedFrequencies, Phi and rounding see tiles.h.
#pragma once

#include "engine/cuda/attention/kernel/causal_sides.h"

namespace bochner::cuda {

/// Whether a row of a chunk's weights has a weight for a column: rows are queries, or keys if `keys`.
template <bool keys>
BOCHNER_DEVICE bool is_visible(int row, int column) {
  return keys ? column >= row : column <= row;
}

/// e^(m_j - m_i) x, 0 where not visible, for a warp's rows from `first` on; m are theirs, `tops` those of the columns.
template <bool keys>
BOCHNER_DEVICE void shift_weights(Sum<kTile / 8>& x, RowValues m, const float* tops, int first) {
  x.zip([&](Place at, float& value) {
    const float less = keys ? m.at(at) - tops[at.column] : tops[at.column] - m.at(at);
    value = is_visible<keys>(first + at.row, at.column) ? fast_exp2(kLog2E * less) * value : 0.0f;
  });
}

/// G'_i . v'_j where visible, for a warp's rows from `first` on, with y' = (y, last); G' is (G, last) times factors.
template <bool keys, int K>
BOCHNER_DEVICE Sum<kTile / 8> weight_gradients(const Left<K>& y, RowValues last, const bfloat16* other_y,
                                               const float* other_last, const float* factors, int first) {
  Sum<kTile / 8> d;
  d.clear();
  multiply_rows(d, y, other_y, 16 * K + kGap);
  d.zip([&](Place at, float& value) {
    const bool visible = is_visible<keys>(first + at.row, at.column);
    const float factor = factors[keys ? at.column : first + at.row];
    value = visible ? factor * (value + last.at(at) * other_last[at.column]) : 0.0f;
  });
  return d;
}

/// A tile of both sides in shared memory, where the features of the other side are stored, 64 frequencies at a time.
template <int D, Form form>
struct CausalTile {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kHalf = 16;  ///< frequencies that a warp processes at once
  static constexpr int kStride = D + kGap;
  static constexpr int kWide = kTile + kGap;
  static constexpr size_t kBytes = sizeof(bfloat16) * kTile * ((kParts == 1 ? 3 : 2) * kStride + kParts * kWide) +
                                   TileScales::kBytes + 3 * sizeof(float) * kTile;
  bfloat16 *x, *other_x, *other_y, *features;
  TileScales scales;          ///< of the other side
  float *tops, *factors, *w;  ///< m, and for queries their factors and, if they are the other side, w

  BOCHNER_DEVICE explicit CausalTile(unsigned char* memory)
      : x(reinterpret_cast<bfloat16*>(memory)),
        other_x(x + kTile * kStride),
        other_y(other_x + kTile * kStride),
        features(kParts == 1 ? other_y + kTile * kStride : other_y),
        scales(reinterpret_cast<float*>(features + kParts * kTile * kWide)),
        tops(scales.last + kTile),
        factors(tops + kTile),
        w(factors + kTile) {}

  /// Factors and w may be null.
  template <class Team>
  BOCHNER_DEVICE void begin(const Team& team, const CausalSide& own, const CausalSide& other, const Slab::Tile& tile,
                            const float* all_m, const float* all_factors, const float* all_w) const {
    const int64_t at = tile.job * own.tokens.padded + tile.token;
    begin_rows<D>(team, own.tokens.x, tile.job, tile.token, x);
    begin_rows<D>(team, other.tokens.x, tile.job, tile.token, other_x);
    begin_rows<D>(team, other.tokens.y, tile.job, tile.token, other_y);
    scales.begin(team, other.tokens, at);
    begin_numbers<kTile, kThreads>(team, all_m + at, tops);
    if (all_factors != nullptr) begin_numbers<kTile, kThreads>(team, all_factors + at, factors);
    if (all_w != nullptr) begin_numbers<kTile, kThreads>(team, all_w + at, w);
  }
  /// Loads other_y again, which the features of two parts had overwritten.
  template <class Team>
  BOCHNER_DEVICE void begin_again(const Team& team, const CausalSide& other, const Slab::Tile& tile) const {
    if constexpr (kParts == 1) return;
    team.sync();
    begin_rows<D>(team, other.tokens.y, tile.job, tile.token, other_y);
    wait_for_copies();
    team.sync();
  }
  BOCHNER_DEVICE const bfloat16* features_at(int part, int half) const {
    return features + part * kTile * kWide + half * kHalf;
  }
  /// u of a warp's 16 own tokens and of as many others, whose features then become part of the tile.
  BOCHNER_DEVICE void project(const Phi<form>& phi, const CausalSide& other, const bfloat16* omega, int left, int first,
                              Sum<kHalf / 8> (&u)[kTile / kHalf]) const {
    const Left<D / 16> tokens[2] = {read_left<D / 16>(x + first * kStride, kStride),
                                    read_left<D / 16>(other_x + first * kStride, kStride)};
    RowValues less = RowValues::load(scales.less + first);
    RowValues weight = RowValues::load(scales.weight + first);
#pragma unroll
    for (int h = 0; h < kTile / kHalf; ++h) {
      Sum<kHalf / 8> both[2];
      both[0].clear();
      both[1].clear();
      multiply_rows(both, tokens, omega + h * kHalf * kStride, kStride);
      u[h] = both[0];
      each_part<kParts>([&](auto part) {
        Sum<kHalf / 8> f = both[1];
        f.zip([&](Place at, float& value) {
          const auto feature = phi.template at<part()>(value, less.at(at), weight.at(at));
          value = h * kHalf + at.column < left ? feature.value + other.eps : 0.0f;
        });
        put_rows(f, features + part() * kTile * kWide + first * kWide + h * kHalf, kWide);
      });
    }
  }
};

/// O and the denominators of queries; one block per tile.
template <int D, Form form>
struct CausalOutputs {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kResident = kParts == 1 ? 3 : 2;
  using Tile = CausalTile<D, form>;
  using Tiles = FrequencyTiles<D, kParts, kThreads>;
  static constexpr size_t kShared = Tiles::kShared + Tile::kBytes;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide queries, keys;
  Slab slab;
  PackedSums sums;      ///< S_c of each tile of the slab
  const float* m;       ///< (jobs, padded)
  const float* totals;  ///< T_c (tiles of the slab, D + 1), or null
  float square;         ///< s^2
  float eps;            ///< of the denominators
  float* denominators;  ///< (jobs, length), or null: the outputs are not divided
  OutputTokens out;

  struct Rows {
    Sum<D / 8> o;
    Sum<kTile / 8> a;
    Sum<Tile::kHalf / 8> u[kTile / Tile::kHalf];
    RowValues less, weight, sum, denominator;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile at = slab.at(team.index());
    const TokenSide& tokens = queries.tokens;
    const int64_t start = at.job * tokens.padded + at.token;
    auto* memory = team.template shared<unsigned char>();
    const Tiles tiles(omega, sums, at.job, at.index, memory);
    const Tile tile(memory + Tiles::kShared);
    tile.begin(team, queries, keys, at, m, nullptr, nullptr);
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t from = start + 16 * warp_of(team, s);
      rows[s].o.clear();
      rows[s].a.clear();
      rows[s].less = RowValues::load(tokens.less + from);
      rows[s].weight = RowValues::load(tokens.weight + from);
      rows[s].sum = RowValues::filled(0);
      rows[s].denominator = RowValues::filled(0);
    }
    tiles.template each<true>(team, [&](int buffer, int64_t f) {
      const int left = static_cast<int>(omega.count - f);
      for (int s = 0; s < kTokenShare; ++s) {
        tile.project(phi, keys, tiles.omega_at(buffer), left, 16 * warp_of(team, s), rows[s].u);
      }
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) add(tile, tiles, buffer, left, rows[s]);
    });
    tile.begin_again(team, keys, at);
    const float* total = totals == nullptr ? nullptr : totals + at.index * (D + 1);
    for (int s = 0; s < kTokenShare; ++s) finish(tile, at, total, 16 * warp_of(team, s), rows[s]);
    store<D, 1, kWarps>(team, out, at.job / omega.heads, at.job % omega.heads, at.token, tokens.length,
                        team.template shared<bfloat16>(), [&](int s, int) -> Sum<D / 8>& { return rows[s].o; });
  }

 private:
  BOCHNER_DEVICE void add(const Tile& tile, const Tiles& tiles, int buffer, int left, Rows& mine) const {
#pragma unroll
    for (int h = 0; h < kTile / Tile::kHalf; ++h) {
      each_part<kParts>([&](auto part) {
        const float* z = tiles.z_at(buffer, part()) + h * Tile::kHalf;
        Sum<Tile::kHalf / 8> f = mine.u[h];
        f.zip([&](Place at, float& value) {
          const auto feature = phi.template at<part()>(value, mine.less.at(at), mine.weight.at(at));
          value = h * Tile::kHalf + at.column < left ? feature.value + queries.eps : 0.0f;
        });
        const auto features = rounded<Tile::kHalf / 16>(f);
        f.zip([&](Place at, float value) {
          mine.sum.at(at) += value;
          mine.denominator.at(at) += value * z[at.column];
        });
        multiply_rows(mine.a, features, tile.features_at(part(), h), Tile::kWide);
        multiply_columns(mine.o, features, tiles.sums_at(buffer, part()) + h * Tile::kHalf * Tiles::kStride,
                         Tiles::kStride);
      });
    }
  }
  BOCHNER_DEVICE void finish(const Tile& tile, const Slab::Tile& at, const float* total, int first, Rows& mine) const {
    const int64_t from = at.job * queries.tokens.padded + at.token + first;
    const int64_t length = queries.tokens.length;
    RowValues carry = RowValues::load(queries.carry + from);
    RowValues w = joined(mine.sum, Plus{});
    w.each([&](int, float& value) { value = queries.eps * value + square; });
    shift_weights<false>(mine.a, RowValues::load(m + from), tile.tops, first);
    mine.a.zip([&](Place place, float& value) {
      if (is_visible<false>(first + place.row, place.column)) value += w.at(place);
    });
    const auto weights = rounded<kTile / 16>(mine.a);
    RowValues within = RowValues::filled(0);
    mine.a.zip([&](Place place, float value) { within.at(place) += value * tile.scales.last[place.column]; });
    mine.o.zip([&](Place place, float& value) { value *= carry.at(place); });
    multiply_columns(mine.o, weights, tile.other_y, Tile::kStride);
    if (total != nullptr) mine.o.zip([&](Place place, float& value) { value += w.at(place) * total[place.column]; });
    RowValues denominator = RowValues::of(joined(mine.denominator, Plus{}), carry, Times{});
    denominator = RowValues::of(denominator, joined(within, Plus{}), Plus{});
    w.each([&](int, float& value) { value *= total == nullptr ? 0.0f : total[D]; });
    denominator = RowValues::of(denominator, w, Plus{});
    denominator.each([&](int row, float& value) {
      const int64_t token = at.token + first + row;
      value = denominators == nullptr ? 1.0f : value + eps;
      if (denominators != nullptr && RowValues::first() && token < length) {
        denominators[at.job * length + token] = value;
      }
      value = token < length ? inverse_of_weights(value) : 0.0f;
    });
    mine.o.zip([&](Place place, float& value) {
      const float inverse = denominator.at(place);
      value = inverse != 0 ? value * inverse : 0.0f;
    });
  }
};

}  // namespace bochner::cuda
