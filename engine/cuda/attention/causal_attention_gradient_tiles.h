// The gradients of tokens and of Omega in causal kernel attention, as causal_attention_tiles.h describes them.
#pragma once

#include "engine/cuda/attention/causal_attention_tiles.h"
#include "engine/cuda/attention/kernel_attention_gradient_tiles.h"

namespace bochner::cuda {

/// D of each tile and its transpose, (tiles of the slab, 64, 64), and flows (jobs, padded) = sum_j G'_i . v'_j; a block
/// for each tile.
template <int D>
struct TileGradients {
  static constexpr size_t kShared = sizeof(bfloat16) * kTile * (D + kGap) + sizeof(float) * 2 * kTile;
  CausalSide queries, keys;
  Slab slab;
  const float* m;
  bfloat16 *matrix, *transposed;
  float* flows;

  struct Rows {
    Left<D / 16> g;
    RowValues last, m;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const int64_t at = tile.job * queries.tokens.padded + tile.token;
    auto* tile_v = team.template shared<bfloat16>();
    auto* tops = reinterpret_cast<float*>(tile_v + kTile * (D + kGap));
    float* last = tops + kTile;
    load_rows<D>(team, keys.tokens.y, tile.job, tile.token, tile_v);
    for (int i = team.rank(); i < kTile; i += team.size()) {
      tops[i] = m[at + i];
      last[i] = keys.tokens.last[at + i];
    }
    team.sync();
    for (int s = 0; s < kTokenShare; ++s) {
      const int first = 16 * warp_of(team, s);
      Rows own;
      own.g.load(queries.tokens.y.at(tile.job, tile.token + first), queries.tokens.y.tokens.stride);
      own.last = RowValues::load(queries.tokens.last + at + first);
      own.m = RowValues::load(m + at + first);
      Sum<kTile / 8> d;
      d.clear();
      multiply_rows(d, own.g, tile_v, D + kGap);
      d.zip([&](Place place, float& value) {
        const bool visible = place.column <= first + place.row;
        value = visible ? value + own.last.at(place) * last[place.column] : 0.0f;
      });
      RowValues sum = d.rows(Plus{});
      sum.each([&](int row, float& value) {
        if (RowValues::first()) flows[at + first + row] = value;
      });
      const int64_t to = tile.index * kTile * kTile;
      d.zip([&](Place place, const float& value) {
        const int row = first + place.row;
        const bool visible = place.column <= row;
        const bfloat16 factor(visible ? math::exp(tops[place.column] - own.m.at(place)) * value : 0.0f);
        matrix[to + row * kTile + place.column] = factor;
        transposed[to + place.column * kTile + row] = factor;
      });
    }
  }
};

/// dQ or dK; a block for each tile.
template <int D, Form form>
struct CausalGradientOfTokens {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared = sizeof(bfloat16) * ((2 + kParts) * kTile * (D + kGap) + kTile * (kTile + kGap)) +
                                    sizeof(float) * kParts * kTile + CarriedScales::kBytes;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own, other;
  Slab slab;
  PackedSums sums;         ///< S_c, or R_(c+1), of each tile
  const bfloat16* within;  ///< D, or its transpose for keys
  KeyMask mask;
  StoredTokens to;

  struct Rows {  // x and y are read again where they are multiplied: there is no room to keep them
    Sum<D / 8> dx;
    Sum<kTile / 8> u, du;
    RowValues less, weight, last, carry, flow, slope;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const TokenSide& tokens = own.tokens;
    const int64_t start = tile.job * tokens.padded + tile.token;
    auto* tile_omega = team.template shared<bfloat16>();
    bfloat16* tile_other = tile_omega + kTile * (D + kGap);
    bfloat16* tile_sums = tile_other + kTile * (D + kGap);
    bfloat16* tile_phi = tile_sums + kParts * kTile * (D + kGap);
    auto* z = reinterpret_cast<float*>(tile_phi + kTile * (kTile + kGap));
    const CarriedScales scales(z + kParts * kTile);
    load_rows<D>(team, other.tokens.x, tile.job, tile.token, tile_other);
    scales.load(team, other, start);
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t at = start + 16 * warp_of(team, s);
      rows[s].dx.clear();
      rows[s].less = RowValues::load(tokens.less + at);
      rows[s].weight = RowValues::load(tokens.weight + at);
      rows[s].last = RowValues::load(tokens.last + at);
      rows[s].carry = RowValues::load(own.carry + at);
      rows[s].flow.each([&](int row, float& value) { value = own.flow == nullptr ? 0.0f : own.flow[at + row]; });
      rows[s].slope = RowValues::filled(0);
    }
    for (int64_t m = 0; m < omega.padded; m += kTile) {
      team.sync();
      load_frequencies<D>(team, omega, tile.job, m, tile_omega);
      load_sums<D, kParts>(team, sums, tile.index, omega, m, tile_sums, z);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Left<D / 16> x;
        x.load(tokens.x.at(tile.job, tile.token + 16 * warp_of(team, s)), tokens.x.tokens.stride);
        rows[s].u.clear();
        multiply_rows(rows[s].u, x, tile_omega, D + kGap);
        rows[s].du.clear();
      }
      each_part<kParts>([&](auto part) {
        if (part() > 0) team.sync();
        for (int s = 0; s < kTokenShare; ++s) {  // F of the other side, frequencies x tokens
          const int first = 16 * warp_of(team, s);
          Left<D / 16> frequencies;
          frequencies.load(tile_omega + first * (D + kGap), D + kGap);
          Sum<kTile / 8> f;
          f.clear();
          multiply_rows(f, frequencies, tile_other, D + kGap);
          f.each([&](int row, int column, float& value) {
            const auto feature = phi.template at<part()>(value, scales.less[column], scales.weight[column]);
            value = m + first + row < omega.count ? feature.value + other.eps : 0.0f;
          });
          put_rows(f, tile_phi + first * (kTile + kGap), kTile + kGap);
        }
        team.sync();
        for (int s = 0; s < kTokenShare; ++s) {
          Rows& mine = rows[s];
          Sum<kTile / 8> df;  // becomes dF phi
          df.clear();
          Left<D / 16> y;
          y.load(tokens.y.at(tile.job, tile.token + 16 * warp_of(team, s)), tokens.y.tokens.stride);
          multiply_rows(df, y, tile_sums + part() * kTile * (D + kGap), D + kGap);
          df.zip([&](Place at, float& flow) {
            flow = (flow + mine.last.at(at) * z[part() * kTile + at.column]) * mine.carry.at(at);
          });
          Left<kTile / 16> weights;
          weights.load(within + (tile.index * kTile + 16 * warp_of(team, s)) * kTile, kTile);
          multiply_rows(df, weights, tile_phi, kTile + kGap);
          df.zip(
              [&](Place at, float& flow, float value, float& into) {
                const auto f = phi.template at<part()>(value, mine.less.at(at), mine.weight.at(at));
                flow += m + at.column < omega.count ? mine.flow.at(at) : 0.0f;
                into += flow * f.slope;
                flow *= f.value;
              },
              mine.u, mine.du);
          if (phi.rule.exponent) mine.slope = RowValues::of(mine.slope, df.rows(Plus{}), Plus{});
        }
      });
      for (int s = 0; s < kTokenShare; ++s) {
        multiply_columns(rows[s].dx, Left<kTile / 16>::of(rows[s].du), tile_omega, D + kGap);
      }
    }
    for (int s = 0; s < kTokenShare; ++s) {
      GradientRows<D, form>{phi, omega.heads, tokens, mask, to}.write(tile.job, tile.token + 16 * warp_of(team, s),
                                                                      rows[s].dx, rows[s].slope);
    }
  }
};

/// Adds to parts (splits, jobs, M, D) of dOmega what the tiles of a split give; a block for 64 frequencies.
template <int D, Form form>
struct CausalGradientOfOmega {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared = sizeof(bfloat16) * (3 * kTile * (D + kGap) + kTile * (kTile + kGap)) +
                                    2 * CarriedScales::kBytes + sizeof(float) * kTile;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own, other;
  Slab slab;
  PackedSums sums;
  const bfloat16* within;
  int64_t jobs, tiles_each;  ///< tiles_each: of a split
  float* parts;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t blocks = omega.padded / kTile;
    const int64_t m = team.index() % blocks * kTile;
    const int64_t job = team.index() / blocks % jobs;
    const int64_t split = team.index() / blocks / jobs;
    const TokenSide& tokens = own.tokens;
    auto* tile_x = team.template shared<bfloat16>();
    bfloat16* tile_y = tile_x + kTile * (D + kGap);
    bfloat16* tile_other = tile_y + kTile * (D + kGap);
    bfloat16* tile_within = tile_other + kTile * (D + kGap);
    auto* flow = reinterpret_cast<float*>(tile_within + kTile * (kTile + kGap));
    const CarriedScales scales(flow + kTile);
    const CarriedScales other_scales(flow + kTile + CarriedScales::kBytes / sizeof(float));
    Sum<D / 8> domega[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) domega[s].clear();
    const int64_t end = (split + 1) * tiles_each < slab.count ? (split + 1) * tiles_each : slab.count;
    for (int64_t i = split * tiles_each; i < end; ++i) {
      const Slab::Tile tile = slab.at(job * slab.count + i);
      const int64_t at = job * tokens.padded + tile.token;
      team.sync();
      load_rows<D>(team, tokens.x, job, tile.token, tile_x);
      load_rows<D>(team, tokens.y, job, tile.token, tile_y);
      load_rows<D>(team, other.tokens.x, job, tile.token, tile_other);
      copy_tile(team, within + tile.index * kTile * kTile, kTile, kTile, kTile, tile_within, kTile + kGap);
      scales.load(team, own, at);
      other_scales.load(team, other, at);
      for (int j = team.rank(); j < kTile; j += team.size()) flow[j] = own.flow == nullptr ? 0.0f : own.flow[at + j];
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        const int64_t first = m + 16 * warp_of(team, s);
        Left<D / 16> frequencies;
        frequencies.load(omega.rows + (omega.place(job) + first) * D, D);
        Sum<kTile / 8> u;
        Sum<kTile / 8> du;
        u.clear();
        multiply_rows(u, frequencies, tile_x, D + kGap);
        du.clear();
        each_part<kParts>([&](auto part) {
          const int64_t from = (tile.index * kParts + part()) * omega.padded + first;
          Left<D / 16> state;
          state.load(sums.rows + from * D, D);
          RowValues z = RowValues::load(sums.z + from);
          Sum<kTile / 8> df;
          df.clear();
          multiply_rows(df, state, tile_y, D + kGap);
          df.zip([&](Place place, float& value) {
            value = (value + z.at(place) * scales.last[place.column]) * scales.carry[place.column];
          });
          Sum<kTile / 8> f;
          f.clear();
          multiply_rows(f, frequencies, tile_other, D + kGap);
          f.each([&](int, int column, float& value) {
            value = phi.template at<part()>(value, other_scales.less[column], other_scales.weight[column]).value +
                    other.eps;
          });
          multiply_rows(df, Left<kTile / 16>::of(f), tile_within, kTile + kGap);
          df.zip(
              [&](Place place, float value, float projection, float& into) {
                const int column = place.column;
                const auto feature = phi.template at<part()>(projection, scales.less[column], scales.weight[column]);
                into += (value + flow[column]) * feature.slope;
              },
              u, du);
        });
        multiply_columns(domega[s], Left<kTile / 16>::of(du), tile_x, D + kGap);
      }
    }
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t first = m + 16 * warp_of(team, s);
      float* to = parts + ((split * jobs + job) * omega.count + first) * D;
      domega[s].each([&](int row, int column, float& value) {
        if (first + row < omega.count) to[row * D + column] += phi.scale * value;
      });
    }
  }
};

}  // namespace bochner::cuda
