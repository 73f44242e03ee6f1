// The products of causal kernel attention on tensor cores. A tile of 64 tokens is a chunk of
// causal_kernel_attention.cu, whose letters stand here, too: what a token has of earlier chunks comes through their
// sums S_c, as in kernel_attention_tiles.h, and what it has of its own through a matrix of 64 x 64 weights:
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

/// A token's numbers, in shared memory.
struct TileScales {
  float *less, *weight, *last, *carry;
  static constexpr size_t kBytes = sizeof(float) * 4 * kTile;

  BOCHNER_DEVICE explicit TileScales(float* memory)
      : less(memory), weight(memory + kTile), last(memory + 2 * kTile), carry(memory + 3 * kTile) {}
  template <class Team>
  BOCHNER_DEVICE void load(const Team& team, const CausalSide& side, int64_t at) const {
    for (int i = team.rank(); i < kTile; i += team.size()) {
      less[i] = side.tokens.less[at + i];
      weight[i] = side.tokens.weight[at + i];
      last[i] = side.tokens.last[at + i];
      carry[i] = side.carry[at + i];
    }
  }
};

/// What each tile adds to S_c, of keys, or to R_c, of queries: (tiles of the slab, F, D + 1); a block for a tile.
template <int D, Form form>
struct TileSums {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared = sizeof(bfloat16) * (kTile * (D + kGap) + D * (kTile + kGap)) + TileScales::kBytes;
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
    bfloat16* tile_yt = tile_x + kTile * (D + kGap);
    const TileScales scales(reinterpret_cast<float*>(tile_yt + D * (kTile + kGap)));
    copy_tile(team, tokens.x + at * D, D, kTile, D, tile_x, D + kGap);
    copy_tile(team, tokens.yt + tile.job * D * tokens.padded + tile.token, tokens.padded, D, kTile, tile_yt,
              kTile + kGap);
    scales.load(team, own, at);
    team.sync();
    for (int64_t m = 0; m < omega.padded; m += kTile) {
      for (int s = 0; s < kTokenShare; ++s) {
        const int64_t first = m + 16 * warp_of(team, s);
        Left<D / 16> frequencies;
        frequencies.load(omega.rows + (omega.place(tile.job) + first) * D, D);
        Sum<kTile / 8> u;
        u.clear();
        multiply(u, frequencies, tile_x, D + kGap);
        each_part<kParts>([&](auto part) {
          Sum<kTile / 8> f = u;
          f.each([&](int, int column, float& value) {
            const float feature = phi.template at<part()>(value, scales.less[column], scales.weight[column]).value;
            value = round_to_bf16((feature + own.eps) * scales.carry[column]);
          });
          Sum<D / 8> sum;
          sum.clear();
          multiply(sum, Left<kTile / 16>::of(f), tile_yt, kTile + kGap);
          f.each([&](int, int column, float& value) { value *= scales.last[column]; });
          RowValues z = f.rows(Plus{});
          float* to = sums + ((tile.index * kParts + part()) * omega.count + first) * (D + 1);
          sum.each([&](int row, int column, float& value) {
            if (first + row < omega.count) to[row * (D + 1) + column] = value;
          });
          z.each([&](int row, float& value) {
            if (RowValues::first() && first + row < omega.count) to[row * (D + 1) + D] = value;
          });
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
      own.q.load(queries.tokens.x + first * D, D);
      own.k.load(keys.tokens.x + first * D, D);
      own.less_q.each([&](int row, float& value) { value = queries.tokens.less[first + row]; });
      own.weight_q.each([&](int row, float& value) { value = queries.tokens.weight[first + row]; });
      own.less_k.each([&](int row, float& value) { value = keys.tokens.less[first + row]; });
      own.weight_k.each([&](int row, float& value) { value = keys.tokens.weight[first + row]; });
      own.m.each([&](int row, float& value) { value = m[first + row]; });
      own.sum = RowValues::filled(0);
      own.a.clear();
    }
    for (int64_t from = 0; from < omega.padded; from += kTile) {
      team.sync();
      load_frequencies<D>(team, omega, tile.job, from, tile_omega);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        rows[s].uq.clear();
        multiply(rows[s].uq, rows[s].q, tile_omega, D + kGap);
        rows[s].uk.clear();
        multiply(rows[s].uk, rows[s].k, tile_omega, D + kGap);
      }
      each_part<kParts>([&](auto part) {
        if (part() > 0) team.sync();
        for (int s = 0; s < kTokenShare; ++s) {
          Rows& own = rows[s];
          bfloat16* to = tile_phi + 16 * warp_of(team, s) * (kTile + kGap);
          own.uk.zip([&](Place place, const float& u) {
            const auto f = phi.template at<part()>(u, own.less_k.at(place), own.weight_k.at(place));
            to[place.row * (kTile + kGap) + place.column] = bfloat16(f.value);
          });
        }
        team.sync();
        for (int s = 0; s < kTokenShare; ++s) {
          Rows& own = rows[s];
          Sum<kTile / 8> f = own.uq;
          f.zip([&](Place place, float& value) {
            const auto feature = phi.template at<part()>(value, own.less_q.at(place), own.weight_q.at(place));
            value = from + place.column < omega.count ? round_to_bf16(feature.value + queries.eps) : 0.0f;
          });
          own.sum = RowValues::of(own.sum, f.rows(Plus{}), Plus{});
          multiply(own.a, Left<kTile / 16>::of(f), tile_phi, kTile + kGap);
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

/// O and the denominators of queries, or dV of keys; a block for a tile.
template <int D, Form form>
struct CausalOutputs {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kOnes = 8;  ///< rows of a tile whose first is `last` of the other side
  static constexpr size_t kShared =
      sizeof(bfloat16) * (kTile * (D + kGap) + kParts * D * (kTile + kGap) + kOnes * (kTile + kGap)) +
      sizeof(float) * kParts * kTile;
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

  struct Rows {
    Left<D / 16> x;
    Sum<D / 8> o;
    RowValues less, weight, carry, w, denominator;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const TokenSide& tokens = own.tokens;
    auto* tile_omega = team.template shared<bfloat16>();
    bfloat16* tile_sums = tile_omega + kTile * (D + kGap);
    bfloat16* ones = tile_sums + kParts * D * (kTile + kGap);
    auto* z = reinterpret_cast<float*>(ones + kOnes * (kTile + kGap));
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t at = tile.job * tokens.padded + tile.token + 16 * warp_of(team, s);
      rows[s].x.load(tokens.x + at * D, D);
      rows[s].o.clear();
      rows[s].less.each([&](int row, float& value) { value = tokens.less[at + row]; });
      rows[s].weight.each([&](int row, float& value) { value = tokens.weight[at + row]; });
      rows[s].carry.each([&](int row, float& value) { value = own.carry[at + row]; });
      rows[s].w.each([&](int row, float& value) { value = w == nullptr ? 1.0f : w[at + row]; });
      rows[s].denominator = RowValues::filled(0);
    }
    for (int64_t m = 0; m < omega.padded; m += kTile) {
      team.sync();
      load_frequencies<D>(team, omega, tile.job, m, tile_omega);
      load_sums<D, kParts>(team, sums, tile.index, omega, m, tile_sums, z);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Rows& mine = rows[s];
        Sum<kTile / 8> u;
        u.clear();
        multiply(u, mine.x, tile_omega, D + kGap);
        each_part<kParts>([&](auto part) {
          Sum<kTile / 8> f = u;
          f.zip([&](Place at, float& value) {
            value = round_to_bf16(phi.template at<part()>(value, mine.less.at(at), mine.weight.at(at)).value + own.eps);
          });
          multiply(mine.o, Left<kTile / 16>::of(f), tile_sums + part() * D * (kTile + kGap), kTile + kGap);
          f.each([&](int, int column, float& value) { value *= z[part() * kTile + column]; });
          mine.denominator = RowValues::of(mine.denominator, f.rows(Plus{}), Plus{});
        });
      }
    }
    // the chunk itself
    team.sync();
    bfloat16* tile_yt = tile_sums;
    const int64_t at = tile.job * tokens.padded + tile.token;
    copy_tile(team, other.tokens.yt + tile.job * D * tokens.padded + tile.token, tokens.padded, D, kTile, tile_yt,
              kTile + kGap);
    for (int i = team.rank(); i < kOnes * kTile; i += team.size()) {
      const float value = i < kTile ? other.tokens.last[at + i] : 0.0f;
      ones[i / kTile * (kTile + kGap) + i % kTile] = bfloat16(value);
    }
    team.sync();
    const float* total = totals == nullptr ? nullptr : totals + tile.index * (D + 1);
    const int64_t b = tile.job / omega.heads;
    const StoredTokens::Head out = to.head(b, tile.job % omega.heads);
    for (int s = 0; s < kTokenShare; ++s) {
      Rows& mine = rows[s];
      const int64_t token = tile.token + 16 * warp_of(team, s);
      Left<kTile / 16> weights;
      weights.load(within + (tile.index * kTile + 16 * warp_of(team, s)) * kTile, kTile);
      mine.o.zip([&](Place place, float& value) { value *= mine.carry.at(place); });
      multiply(mine.o, weights, tile_yt, kTile + kGap);
      if (total != nullptr) {
        mine.o.zip([&](Place place, float& value) { value += mine.w.at(place) * total[place.column]; });
      }
      if (denominators == nullptr) {
        mine.denominator = RowValues::filled(1);
      } else {
        Sum<1> sum;
        sum.clear();
        multiply(sum, weights, ones, kTile + kGap);
        mine.denominator = RowValues::of(mine.denominator, mine.carry, Times{});
        mine.denominator = RowValues::of(mine.denominator, sum.rows(Plus{}), Plus{});
        if (total != nullptr) {
          mine.w.each([&](int, float& value) { value *= total[D]; });
          mine.denominator = RowValues::of(mine.denominator, mine.w, Plus{});
        }
        mine.denominator.each([&](int row, float& value) {
          value += eps;
          if (RowValues::first() && token + row < tokens.length)
            denominators[tile.job * tokens.length + token + row] = value;
        });
      }
      mine.o.each(mine.denominator, [&](int row, int column, float& value, float denominator) {
        if (token + row >= tokens.length) return;
        const float inverse = mask.real(b, token + row) ? inverse_of_weights(denominator) : 0.0f;
        out.put(token + row, column, inverse != 0 ? value * inverse : 0.0f);
      });
    }
  }
};

}  // namespace bochner::cuda
