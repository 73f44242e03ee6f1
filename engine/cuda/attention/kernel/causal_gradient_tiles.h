// The gradients of tokens and of Omega in causal kernel attention, as causal_tiles.h describes them.
#pragma once

#include "engine/cuda/attention/kernel/causal_tiles.h"

namespace bochner::cuda {

/// dQ of queries, or dK and dV of keys; one block per tile. Queries write `last`, -(G . O), w, and what eps adds to
/// each of their dF.
template <int D, Form form, bool keys>
struct CausalGradientOfTokens {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kResident = kParts == 1 && !keys ? 3 : 2;
  using Tile = CausalTile<D, form>;
  using Tiles = FrequencyTiles<D, kParts, kThreads>;
  static constexpr int kHalf = Tile::kHalf;
  static constexpr size_t kShared = Tiles::kShared + Tile::kBytes;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own, other;
  Slab slab;
  PackedSums sums;          ///< S_c, or R_(c+1), of each tile
  const float *m, *factor;  ///< (jobs, padded); factor: of queries
  const float* totals;      ///< T_c, or t_(c+1), (tiles of the slab, D + 1); or null
  HeadRows outputs;         ///< O, of queries
  bool divided;             ///< whether outputs are divided by their denominators
  float square;             ///< s^2
  float *last, *flows, *w;  ///< (jobs, padded), of queries; w: times their factors
  KeyMask mask;
  OutputTokens dx, dy;  ///< dy: of keys

  struct Rows {
    Left<D / 16> y;
    Left<kTile / 16> d;
    Sum<D / 8> dx, dy;
    Sum<kTile / 8> a;
    Sum<kHalf / 8> u[kTile / Tile::kHalf];
    RowValues less, weight, last, carry, flow, slope, sum;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Slab::Tile at = slab.at(team.index());
    auto* memory = team.template shared<unsigned char>();
    const Tiles tiles(omega, sums, at.job, at.index, memory);
    const Tile tile(memory + Tiles::kShared);
    const float* total = totals == nullptr ? nullptr : totals + at.index * (D + 1);
    tile.begin(team, own, other, at, m, factor, keys ? w : nullptr);
    wait_for_copies();
    team.sync();
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) begin(tile, at, total, 16 * warp_of(team, s), rows[s]);
    tiles.template each<true>(team, [&](int buffer, int64_t f) {
      const int left = static_cast<int>(omega.count - f);
      for (int s = 0; s < kTokenShare; ++s) {
        tile.project(phi, other, tiles.omega_at(buffer), left, 16 * warp_of(team, s), rows[s].u);
      }
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) add(tile, tiles, buffer, left, rows[s]);
    });
    if constexpr (keys) tile.begin_again(team, other, at);
    for (int s = 0; s < kTokenShare; ++s) finish(tile, at, total, 16 * warp_of(team, s), rows[s]);
    const int64_t b = at.job / omega.heads;
    const int64_t h = at.job % omega.heads;
    auto* room = team.template shared<bfloat16>();
    store<D, 1, kWarps>(team, dx, b, h, at.token, own.tokens.length, room,
                        [&](int s, int) -> Sum<D / 8>& { return rows[s].dx; });
    if constexpr (keys) {
      store<D, 1, kWarps>(team, dy, b, h, at.token, own.tokens.length, room,
                          [&](int s, int) -> Sum<D / 8>& { return rows[s].dy; });
    }
  }

 private:
  BOCHNER_DEVICE void begin(const Tile& tile, const Slab::Tile& at, const float* total, int first, Rows& mine) const {
    const TokenSide& tokens = own.tokens;
    const int64_t from = at.job * tokens.padded + at.token + first;
    mine.y.load(tokens.y.at(at.job, at.token + first), tokens.y.tokens.stride);
    mine.less = RowValues::load(tokens.less + from);
    mine.weight = RowValues::load(tokens.weight + from);
    mine.carry = RowValues::load(own.carry + from);
    mine.flow = RowValues::filled(0);
    mine.slope = RowValues::filled(0);
    mine.sum = RowValues::filled(0);
    mine.dx.clear();
    if constexpr (keys) {
      mine.last = RowValues::load(tokens.last + from);
      mine.dy.clear();
      mine.a.clear();
    } else {
      mine.last = RowValues::filled(0);
      if (divided) {
        Left<D / 16> o;
        o.load(outputs.at(at.job, at.token + first), outputs.tokens.stride);
        mine.last = dots(mine.y, o);
      }
      mine.last.each([&](int row, float& value) {
        value = -value;
        if (RowValues::first()) last[from + row] = value;
      });
    }
    auto d = weight_gradients<keys>(mine.y, mine.last, tile.other_y, tile.scales.last, tile.factors, first);
    if constexpr (!keys) {
      RowValues factors = RowValues::load(tile.factors + first);
      d.zip([&](Place place, float value) { mine.flow.at(place) += value; });
      if (total != nullptr) {
        widened(mine.y).zip(
            [&](Place place, float value) { mine.flow.at(place) += factors.at(place) * total[place.column] * value; });
      }
      RowValues beside = RowValues::of(mine.last, factors, Times{});
      beside.each([&](int, float& value) { value *= total == nullptr ? 0.0f : total[D]; });
      mine.flow = RowValues::of(joined(mine.flow, Plus{}), beside, Plus{});
      mine.flow.each([&](int row, float& value) {
        value *= own.eps;
        if (RowValues::first()) flows[from + row] = value;
      });
    }
    shift_weights<keys>(d, RowValues::load(m + from), tile.tops, first);
    mine.d = Left<kTile / 16>::of(d);
  }
  BOCHNER_DEVICE void add(const Tile& tile, const Tiles& tiles, int buffer, int left, Rows& mine) const {
#pragma unroll
    for (int h = 0; h < kTile / Tile::kHalf; ++h) {
      constexpr int kStride = Tiles::kStride;
      const bfloat16* tile_omega = tiles.omega_at(buffer) + h * kHalf * kStride;
      Sum<kHalf / 8> du;
      du.clear();
      each_part<kParts>([&](auto part) {
        const bfloat16* state = tiles.sums_at(buffer, part()) + h * kHalf * kStride;
        const float* z = tiles.z_at(buffer, part()) + h * kHalf;
        Sum<kHalf / 8> df;  // becomes phi
        df.clear();
        multiply_rows(df, mine.y, state, kStride);
        df.zip([&](Place at, float& flow) { flow = (flow + mine.last.at(at) * z[at.column]) * mine.carry.at(at); });
        multiply_columns(df, mine.d, tile.features_at(part(), h), Tile::kWide);
        df.zip(
            [&](Place at, float& flow, float value, float& into) {
              const auto f = phi.template at<part()>(value, mine.less.at(at), mine.weight.at(at));
              const bool there = h * kHalf + at.column < left;
              flow += there ? mine.flow.at(at) : 0.0f;
              into += flow * f.slope;
              if constexpr (form != Form::elementwise) mine.slope.at(at) += flow * f.value;
              flow = f.value;
              if constexpr (!keys) mine.sum.at(at) += there ? f.value : 0.0f;
            },
            mine.u[h], du);
        if constexpr (keys) {
          const auto features = Left<kHalf / 16>::of(df);
          multiply_rows(mine.a, features, tile.features_at(part(), h), Tile::kWide);
          multiply_columns(mine.dy, features, state, kStride);
        }
      });
      multiply_columns(mine.dx, Left<kHalf / 16>::of(du), tile_omega, kStride);
    }
  }
  BOCHNER_DEVICE void finish(const Tile& tile, const Slab::Tile& at, const float* total, int first, Rows& mine) const {
    const int64_t from = at.job * own.tokens.padded + at.token + first;
    const float by = phi.rule.exponent ? phi.rule.norm_slope() * phi.scale : 0.0f;
    RowValues slope = joined(mine.slope, Plus{});
    slope.each([&](int, float& value) { value *= by; });
    RowValues real = RowValues::filled(0);
    real.each([&](int row, float& value) {
      const int64_t token = at.token + first + row;
      value = token < own.tokens.length && mask.real(at.job / omega.heads, token) ? phi.scale : 0.0f;
    });
    auto x = widened(read_left<D / 16>(tile.x + first * Tile::kStride, Tile::kStride));
    mine.dx.zip(
        [&](Place place, float& value, float x_at) {
          const float scale = real.at(place);
          value = scale != 0 ? scale * (value + slope.at(place) * x_at) : 0.0f;
        },
        x);
    if constexpr (keys) {
      shift_weights<true>(mine.a, RowValues::load(m + from), tile.tops, first);
      mine.a.zip([&](Place place, float& value) {
        const bool visible = is_visible<true>(first + place.row, place.column);
        value = visible ? tile.factors[place.column] * value + tile.w[place.column] : 0.0f;
      });
      mine.dy.zip([&](Place place, float& value) { value *= mine.carry.at(place); });
      multiply_columns(mine.dy, Left<kTile / 16>::of(mine.a), tile.other_y, Tile::kStride);
      mine.dy.zip([&](Place place, float& value) {
        if (total != nullptr) value += total[place.column];
        value = real.at(place) != 0 ? value : 0.0f;
      });
    } else {
      const auto features = static_cast<float>(omega.count * kParts);
      RowValues sum = joined(mine.sum, Plus{});
      sum.each([&](int, float& value) { value = own.eps * (value + own.eps * features) + square; });
      sum = RowValues::of(sum, RowValues::load(tile.factors + first), Times{});
      sum.each([&](int row, float& value) {
        if (RowValues::first()) w[from + row] = value;
      });
    }
  }
};

/// Adds the contribution of the tiles of a split to parts (splits, jobs, M, D) of dOmega; one block per 64 frequencies.
template <int D, Form form, bool keys>
struct CausalGradientOfOmega {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared = sizeof(bfloat16) * (4 * kTile * (D + kGap) + kTile * (kTile + kGap)) +
                                    2 * CarriedScales::kBytes + sizeof(float) * 3 * kTile;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own, other;
  Slab slab;
  PackedSums sums;
  const float *m, *factor;
  int64_t jobs, tiles_each;  ///< tiles_each: per split
  float* parts;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t blocks = omega.padded / kTile;
    const int64_t block = team.index() % blocks * kTile;
    const int64_t job = team.index() / blocks % jobs;
    const int64_t split = team.index() / blocks / jobs;
    const TokenSide& tokens = own.tokens;
    auto* tile_x = team.template shared<bfloat16>();
    bfloat16* tile_y = tile_x + kTile * (D + kGap);
    bfloat16* tile_other = tile_y + kTile * (D + kGap);
    bfloat16* tile_other_y = tile_other + kTile * (D + kGap);
    bfloat16* tile_within = tile_other_y + kTile * (D + kGap);
    auto* flow = reinterpret_cast<float*>(tile_within + kTile * (kTile + kGap));
    float* tops = flow + kTile;
    float* factors = tops + kTile;
    const CarriedScales scales(factors + kTile);
    const CarriedScales other_scales(scales.carry + kTile);
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
      begin_rows<D>(team, other.tokens.y, job, tile.token, tile_other_y);
      begin_numbers<kTile, kThreads>(team, m + at, tops);
      begin_numbers<kTile, kThreads>(team, factor + at, factors);
      scales.begin(team, own, at);
      other_scales.begin(team, other, at);
      for (int j = team.rank(); j < kTile; j += team.size()) flow[j] = own.flow == nullptr ? 0.0f : own.flow[at + j];
      wait_for_copies();
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        const int row = 16 * warp_of(team, s);
        auto d =
            weight_gradients<keys>(read_left<D / 16>(tile_y + row * (D + kGap), D + kGap),
                                   RowValues::load(scales.last + row), tile_other_y, other_scales.last, factors, row);
        shift_weights<keys>(d, RowValues::load(tops + row), tops, row);
        put_rows(d, tile_within + row * (kTile + kGap), kTile + kGap);
      }
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        const int64_t first = block + 16 * warp_of(team, s);
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
      const int64_t first = block + 16 * warp_of(team, s);
      float* to = parts + ((split * jobs + job) * omega.count + first) * D;
      domega[s].each([&](int row, int column, float& value) {
        if (first + row < omega.count) to[row * D + column] += phi.scale * value;
      });
    }
  }
};

}  // namespace bochner::cuda
