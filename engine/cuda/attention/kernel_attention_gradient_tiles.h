// The gradients of tokens and of Omega, as kernel_attention_tiles.h describes them.
#pragma once

#include "engine/cuda/attention/kernel_attention_tiles.h"

namespace bochner::cuda {

/// Writes dQ or dK: the gradient through u and, for maps with an exponent, through |x|^2.
template <int D, Form form>
struct GradientRows {
  const Phi<form>& phi;
  int64_t heads;
  const TokenSide& tokens;
  const KeyMask& mask;
  float scale;
  const StoredTokens& to;

  /// `slope` is the gradient of each token's exponent.
  BOCHNER_DEVICE void write(int64_t job, int64_t token, Sum<D / 8>& dx, const RowValues& slope) const {
    const int64_t b = job / heads;
    const StoredTokens::Head out = to.head(b, job % heads);
    const bfloat16* x = tokens.x + (job * tokens.padded + token) * D;
    dx.each(slope, [&](int row, int column, float& value, float by) {
      if (token + row >= tokens.length) return;
      if (phi.rule.exponent) value += by * phi.rule.norm_slope() * static_cast<float>(x[row * D + column]);
      out.put(token + row, column, mask.real(b, token + row) ? scale * value : 0.0f);
    });
  }
};

/// dQ or dK; a block for 64 tokens of a head.
template <int D, Form form>
struct GradientOfTokens {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared =
      sizeof(bfloat16) * ((1 + kParts) * kTile * (D + kGap) + D * (kTile + kGap)) + sizeof(float) * kParts * kTile;
  Phi<form> phi;
  PackedFrequencies omega;
  TokenSide tokens;
  PackedSums sums;
  KeyMask mask;
  float scale;
  StoredTokens to;

  struct Rows {
    Left<D / 16> x, y;
    Sum<D / 8> dx;
    RowValues less, weight, last, slope;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / (tokens.padded / kTile);
    const int64_t first = team.index() % (tokens.padded / kTile) * kTile;
    auto* tile_omega = team.template shared<bfloat16>();
    bfloat16* tile_columns = tile_omega + kTile * (D + kGap);
    bfloat16* tile_sums = tile_columns + D * (kTile + kGap);
    auto* z = reinterpret_cast<float*>(tile_sums + kParts * kTile * (D + kGap));
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t at = job * tokens.padded + first + 16 * warp_of(team, s);
      rows[s].x.load(tokens.x + at * D, D);
      rows[s].y.load(tokens.y + at * D, D);
      rows[s].dx.clear();
      rows[s].less = RowValues::load(tokens.less + at);
      rows[s].weight = RowValues::load(tokens.weight + at);
      rows[s].last = RowValues::load(tokens.last + at);
      rows[s].slope = RowValues::filled(0);
    }
    for (int64_t m = 0; m < omega.padded; m += kTile) {
      team.sync();
      load_for_gradients<D, kParts>(team, omega, job, sums, job, m, tile_omega, tile_columns, tile_sums, z);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Rows& own = rows[s];
        Sum<kTile / 8> u;
        Sum<kTile / 8> du;
        u.clear();
        multiply(u, own.x, tile_omega, D + kGap);
        du.clear();
        each_part<kParts>([&](auto part) {
          Sum<kTile / 8> df;  // becomes dF phi
          df.clear();
          multiply(df, own.y, tile_sums + part() * kTile * (D + kGap), D + kGap);
          df.zip(
              [&](Place at, float& flow, float value, float& into) {
                const auto f = phi.template at<part()>(value, own.less.at(at), own.weight.at(at));
                flow += own.last.at(at) * z[part() * kTile + at.column];
                into += flow * f.slope;
                flow *= f.value;
              },
              u, du);
          if (phi.rule.exponent) own.slope = RowValues::of(own.slope, df.rows(Plus{}), Plus{});
        });
        multiply(own.dx, Left<kTile / 16>::of(du), tile_columns, kTile + kGap);
      }
    }
    for (int s = 0; s < kTokenShare; ++s) {
      GradientRows<D, form>{phi, omega.heads, tokens, mask, scale, to}.write(job, first + 16 * warp_of(team, s),
                                                                             rows[s].dx, rows[s].slope);
    }
  }
};

/// dOmega from the tokens of a split: (splits, jobs, M, D); a block for 64 frequencies.
template <int D, Form form>
struct GradientOfOmega {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared =
      sizeof(bfloat16) * (2 * kTile * (D + kGap) + D * (kTile + kGap)) + TileScales::kBytes;
  Phi<form> phi;
  PackedFrequencies omega;
  TokenSide tokens;
  PackedSums sums;
  int64_t jobs, tokens_each;
  float* parts;

  struct Rows {
    Left<D / 16> omega, sums[kParts];
    RowValues z[kParts];
    Sum<D / 8> domega;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = omega.padded / kTile;
    const int64_t m = team.index() % tiles * kTile;
    const int64_t job = team.index() / tiles % jobs;
    const int64_t split = team.index() / tiles / jobs;
    auto* tile_x = team.template shared<bfloat16>();
    bfloat16* tile_y = tile_x + kTile * (D + kGap);
    bfloat16* tile_xt = tile_y + kTile * (D + kGap);
    const TileScales scales(reinterpret_cast<float*>(tile_xt + D * (kTile + kGap)));
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t own = m + 16 * warp_of(team, s);
      rows[s].omega.load(omega.rows + (omega.place(job) + own) * D, D);
      each_part<kParts>([&](auto part) {
        const int64_t from = (job * kParts + part()) * omega.padded + own;
        rows[s].sums[part()].load(sums.rows + from * D, D);
        rows[s].z[part()] = RowValues::load(sums.z + from);
      });
      rows[s].domega.clear();
    }
    const int64_t end = (split + 1) * tokens_each < tokens.length ? (split + 1) * tokens_each : tokens.length;
    for (int64_t token = split * tokens_each; token < end; token += kTile) {
      const int64_t at = job * tokens.padded + token;
      team.sync();
      load_rows<D>(team, tokens.x + at * D, tile_x);
      load_rows<D>(team, tokens.y + at * D, tile_y);
      load_columns<D>(team, tokens.xt + job * D * tokens.padded + token, tokens.padded, tile_xt);
      scales.load(team, tokens, at);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Rows& own = rows[s];
        Sum<kTile / 8> u;
        Sum<kTile / 8> du;
        u.clear();
        multiply(u, own.omega, tile_x, D + kGap);
        du.clear();
        each_part<kParts>([&](auto part) {
          auto df = product<kTile / 8>(own.sums[part()], tile_y, D + kGap);
          df.zip(
              [&](Place place, float flow, float value, float& into) {
                const int column = place.column;
                const auto f = phi.template at<part()>(value, scales.less[column], scales.weight[column]);
                into += (flow + own.z[part()].at(place) * scales.last[column]) * f.slope;
              },
              u, du);
        });
        multiply(own.domega, Left<kTile / 16>::of(du), tile_xt, kTile + kGap);
      }
    }
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t own = m + 16 * warp_of(team, s);
      float* to = parts + ((split * jobs + job) * omega.count + own) * D;
      rows[s].domega.each([&](int row, int column, float& value) {
        if (own + row < omega.count) to[row * D + column] = value;
      });
    }
  }
};

}  // namespace bochner::cuda
