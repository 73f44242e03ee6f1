// The gradients of tokens and of Omega in causal kernel attention, as causal_attention_tiles.h describes them.
#pragma once

#include "engine/cuda/attention/causal_attention_tiles.h"

namespace bochner::cuda {

/// D of each tile and its transpose, (tiles of the slab, 64, 64); `last` of queries, -(G . O); and flows, what eps adds
/// to each dF_q. A block for each tile.
template <int D>
struct TileGradients {
  static constexpr size_t kShared = sizeof(bfloat16) * kTile * (D + kGap) + sizeof(float) * 2 * kTile;
  CausalSide queries, keys;
  Slab slab;
  const float* m;
  HeadRows outputs;     ///< O
  bool divided;         ///< are outputs divided by their denominators?
  float eps;            ///< of the features of queries
  const float* totals;  ///< T_c (tiles of the slab, D + 1), or null
  bfloat16 *matrix, *transposed;
  float *last, *flows;  ///< (jobs, padded), of queries

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
    float* last_of_keys = tops + kTile;
    const float* total = totals == nullptr ? nullptr : totals + tile.index * (D + 1);
    begin_rows<D>(team, keys.tokens.y, tile.job, tile.token, tile_v);
    begin_numbers<kTile, kThreads>(team, m + at, tops);
    begin_numbers<kTile, kThreads>(team, keys.tokens.last + at, last_of_keys);
    wait_for_copies();
    team.sync();
    for (int s = 0; s < kTokenShare; ++s) {
      const int first = 16 * warp_of(team, s);
      Rows own;
      own.g.load(queries.tokens.y.at(tile.job, tile.token + first), queries.tokens.y.tokens.stride);
      own.last = RowValues::filled(0);
      if (divided) {
        Left<D / 16> o;
        o.load(outputs.at(tile.job, tile.token + first), outputs.tokens.stride);
        own.last = dots(own.g, o);
      }
      own.last.each([&](int row, float& value) {
        value = -value;
        if (RowValues::first()) last[at + first + row] = value;
      });
      own.m = RowValues::load(m + at + first);
      Sum<kTile / 8> d;
      d.clear();
      multiply_rows(d, own.g, tile_v, D + kGap);
      d.zip([&](Place place, float& value) {
        const bool visible = place.column <= first + place.row;
        value = visible ? value + own.last.at(place) * last_of_keys[place.column] : 0.0f;
      });
      RowValues sum = RowValues::filled(0);
      d.zip([&](Place place, float value) { sum.at(place) += value; });
      if (total != nullptr) {
        widened(own.g).zip([&](Place place, float value) { sum.at(place) += total[place.column] * value; });
      }
      RowValues beside = own.last;
      beside.each([&](int, float& value) { value *= total == nullptr ? 0.0f : total[D]; });
      sum = RowValues::of(joined(sum, Plus{}), beside, Plus{});
      sum.each([&](int row, float& value) {
        if (RowValues::first()) flows[at + first + row] = eps * value;
      });
      const int64_t to = tile.index * kTile * kTile;
      d.zip([&](Place place, const float& value) {
        const int row = first + place.row;
        const bool visible = place.column <= row;
        const bfloat16 factor(visible ? fast_exp2(kLog2E * (tops[place.column] - own.m.at(place))) * value : 0.0f);
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
  using Tiles = FrequencyTiles<D, kParts, kThreads>;
  static constexpr int kWide = kTile + kGap;  ///< between rows of 64
  static constexpr size_t kShared =
      Tiles::kShared + sizeof(bfloat16) * kTile * (3 * (D + kGap) + kWide) + CarriedScales::kBytes;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own, other;
  Slab slab;
  PackedSums sums;         ///< S_c, or R_(c+1), of each tile
  const bfloat16* within;  ///< D, or its transpose for keys
  KeyMask mask;
  OutputTokens out;

  struct Rows {  // x and y stay in shared memory: there is no room to keep them
    Sum<D / 8> dx;
    Sum<kTile / 8> u, du;
    RowValues less, weight, last, carry, flow, slope;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile tile = slab.at(team.index());
    const TokenSide& tokens = own.tokens;
    const int64_t start = tile.job * tokens.padded + tile.token;
    auto* memory = team.template shared<unsigned char>();
    const Tiles tiles(omega, sums, tile.job, tile.index, memory);
    auto* tile_x = reinterpret_cast<bfloat16*>(memory + Tiles::kShared);
    bfloat16* tile_y = tile_x + kTile * (D + kGap);
    bfloat16* tile_other = tile_y + kTile * (D + kGap);
    bfloat16* tile_phi = tile_other + kTile * (D + kGap);
    const CarriedScales scales(reinterpret_cast<float*>(tile_phi + kTile * kWide));
    begin_rows<D>(team, tokens.x, tile.job, tile.token, tile_x);
    begin_rows<D>(team, tokens.y, tile.job, tile.token, tile_y);
    begin_rows<D>(team, other.tokens.x, tile.job, tile.token, tile_other);
    scales.begin(team, other, start);
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
    tiles.template each<true>(team, [&](int buffer, int64_t m) {
      const bfloat16* tile_omega = tiles.omega_at(buffer);
      for (int s = 0; s < kTokenShare; ++s) {
        rows[s].u.clear();
        multiply_rows(rows[s].u, read_left<D / 16>(tile_x + 16 * warp_of(team, s) * (D + kGap), D + kGap), tile_omega,
                      D + kGap);
        rows[s].du.clear();
      }
      each_part<kParts>([&](auto part) {
        if (part() > 0) team.sync();
        for (int s = 0; s < kTokenShare; ++s) {  // F of the other side, frequencies x tokens
          const int first = 16 * warp_of(team, s);
          Sum<kTile / 8> f;
          f.clear();
          multiply_rows(f, read_left<D / 16>(tile_omega + first * (D + kGap), D + kGap), tile_other, D + kGap);
          f.each([&](int row, int column, float& value) {
            const auto feature = phi.template at<part()>(value, scales.less[column], scales.weight[column]);
            value = m + first + row < omega.count ? feature.value + other.eps : 0.0f;
          });
          put_rows(f, tile_phi + first * kWide, kWide);
        }
        team.sync();
        for (int s = 0; s < kTokenShare; ++s) {
          Rows& mine = rows[s];
          Sum<kTile / 8> df;  // becomes dF phi
          df.clear();
          const float* z = tiles.z_at(buffer, part());
          multiply_rows(df, read_left<D / 16>(tile_y + 16 * warp_of(team, s) * (D + kGap), D + kGap),
                        tiles.sums_at(buffer, part()), D + kGap);
          df.zip([&](Place at, float& flow) { flow = (flow + mine.last.at(at) * z[at.column]) * mine.carry.at(at); });
          Left<kTile / 16> weights;
          weights.load(within + (tile.index * kTile + 16 * warp_of(team, s)) * kTile, kTile);
          multiply_rows(df, weights, tile_phi, kWide);
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
    });
    const int64_t b = tile.job / omega.heads;
    const float norm_slope = phi.rule.exponent ? phi.rule.norm_slope() * phi.scale : 0.0f;
    for (int s = 0; s < kTokenShare; ++s) {
      Rows& mine = rows[s];
      const int first = 16 * warp_of(team, s);
      auto x = widened(read_left<D / 16>(tile_x + first * (D + kGap), D + kGap));
      RowValues real = RowValues::filled(0);
      real.each([&](int row, float& value) {
        const int64_t token = tile.token + first + row;
        value = token < tokens.length && mask.real(b, token) ? phi.scale : 0.0f;
      });
      mine.dx.zip(
          [&](Place at, float& value, float from) {
            const float scale = real.at(at);
            value = scale != 0 ? scale * (value + mine.slope.at(at) * norm_slope * from) : 0.0f;
          },
          x);
    }
    store<D, 1, kWarps>(team, out, b, tile.job % omega.heads, tile.token, tokens.length,
                        team.template shared<bfloat16>(), [&](int s, int) -> Sum<D / 8>& { return rows[s].dx; });
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
    const bfloat16* omega_rows = omega.rows + omega.place(job) * D;
    const int64_t end = (split + 1) * tiles_each < slab.count ? (split + 1) * tiles_each : slab.count;
    for (int64_t i = split * tiles_each; i < end; ++i) {
      const Slab::Tile tile = slab.at(job * slab.count + i);
      const int64_t at = job * tokens.padded + tile.token;
      team.sync();
      begin_rows<D>(team, tokens.x, job, tile.token, tile_x);
      begin_rows<D>(team, tokens.y, job, tile.token, tile_y);
      begin_rows<D>(team, other.tokens.x, job, tile.token, tile_other);
      begin_tile<kTile, kTile, kThreads>(team, within + tile.index * kTile * kTile, kTile, tile_within, kTile + kGap);
      scales.begin(team, own, at);
      other_scales.begin(team, other, at);
      for (int j = team.rank(); j < kTile; j += team.size()) flow[j] = own.flow == nullptr ? 0.0f : own.flow[at + j];
      wait_for_copies();
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        const int64_t first = m + 16 * warp_of(team, s);
        Left<D / 16> frequencies;
        frequencies.load(omega_rows + first * D, D);
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
