// The products of kernel attention on tensor cores (engine/ops/attention/kernel_attention.h): features are made in
// registers from U = Omega x and used there, so that neither they nor their gradients reach memory. Two pairs of
// kernels serve queries and keys, forward and backward; in each pair, tokens and frequencies change places:
//
//   sums over tokens       S'_f  = sum_i phi_f(x_i) y'_i                     S' from (k, v'), dS' from (q, G')
//   outputs of tokens      y'_i  = sum_f phi_f(x_i) S'_f                     O' from (q, S'), dV' from (k, dS')
//   gradient of tokens     dx_i  = sum_f dU_fi Omega_f                       dQ from (q, G', S'), dK from (k, v', dS')
//   gradient of Omega      dOmega_f = sum_i dU_fi x_i,  dU_fi = phi'_f(x_i) S'_f . y'_i
//
// where y' = (y, last): v' = (v, 1) and G' of engine/cuda/attention/kernel_attention_parts.h. Factors are rounded to
// bf16. Sums, exponentials, `last` and z, the last column of S', are f32; z and denominators use the same rounded
// features as the rest, so that rounding errors cancel in the quotient. The eps and constant of a map are not part of
// phi here: they are added to the sums (kernel_attention_bf16.cu). The gradients are in
// kernel_attention_gradient_tiles.h.
#pragma once

#include "engine/cuda/attention/feature_rows.h"
#include "engine/cuda/parts/packed.h"
#include "engine/cuda/parts/warp_matrix.h"

namespace bochner::cuda {

constexpr int kWarps = 4;  // of a block: 64 tokens, or frequencies
constexpr int kTokenShare = kWarpShare<kWarps>;

enum class Form : uint8_t { positive, hyperbolic, trigonometric, elementwise };

struct FeatureValue {
  float value, slope;  ///< phi and d phi / d u
};

/// phi of one token and frequency. `less` is subtracted from exponents (in units of log 2; infinite for keys that are
/// not real). `weight` is a factor for maps that are not exponentials of u.
template <Form form>
struct Phi {
  static constexpr int kParts = form == Form::hyperbolic || form == Form::trigonometric ? 2 : 1;
  FeatureRule<float> rule;
  float scale = 1;  ///< of tokens that are not packed

  /// u = scale * projection
  template <int part>
  BOCHNER_DEVICE FeatureValue at(float projection, float less, float weight) const {
    if constexpr (form == Form::positive || form == Form::hyperbolic) {
      const float sign = part == 0 ? 1.0f : -1.0f;
      const float value = fast_exp2(sign * kLog2E * scale * projection - less);
      return {value, sign * value};
    } else if constexpr (form == Form::trigonometric) {
      float sine = 0;
      float cosine = 0;
      fast_sincos(scale * projection, sine, cosine);
      return part == 0 ? FeatureValue{weight * cosine, -weight * sine} : FeatureValue{weight * sine, weight * cosine};
    } else {
      const float u = scale * projection;
      return {weight * rule.value(u), weight * rule.slope(u)};
    }
  }
};

/// body(part) for each part of a map's features, as a constant.
template <int parts, class Body>
BOCHNER_DEVICE void each_part(const Body& body) {
  body(std::integral_constant<int, 0>{});
  if constexpr (parts == 2) body(std::integral_constant<int, 1>{});
}

/// Packed frequencies. Rows beyond the last repeat earlier ones, so that no exponent exceeds those of real rows; their
/// sums are 0.
struct PackedFrequencies {
  int64_t heads;          ///< of the tokens
  int64_t count, padded;  ///< M, and that in whole tiles
  bool shared;            ///< one Omega for all heads
  const bfloat16* rows;   ///< (1 or heads, padded, D)

  BOCHNER_DEVICE int64_t place(int64_t job) const { return shared ? 0 : job % heads * padded; }
};

/// Tokens of each head, where they are or packed.
struct HeadRows {
  int64_t heads;
  Tokens<const bfloat16> tokens;

  /// Those from `token` on of a job, b * heads + h.
  BOCHNER_DEVICE const bfloat16* at(int64_t job, int64_t token) const {
    return tokens.head(job / heads, job % heads) + token * tokens.stride;
  }
};

/// Tokens of one side in whole tiles, with numbers for each, (jobs, padded).
struct TokenSide {
  int64_t length, padded;
  HeadRows x, y;  ///< y: V or G
  const float *less, *weight, *last;
};

/// S' or dS', packed: (jobs, parts, padded frequencies, ...).
struct PackedSums {
  const bfloat16* rows;  ///< without z
  const float* z;
  const float* base;  ///< (jobs, D + 1): what is added to each output, or null
};

/// A tile of 64 rows in shared memory.
template <int D, class Team>
BOCHNER_DEVICE void load_rows(const Team& team, const bfloat16* rows, bfloat16* tile, int64_t stride = D) {
  copy_tile(team, rows, stride, kTile, D, tile, D + kGap);
}
template <int D, class Team>
BOCHNER_DEVICE void load_rows(const Team& team, const HeadRows& rows, int64_t job, int64_t token, bfloat16* tile) {
  load_rows<D>(team, rows.at(job, token), tile, rows.tokens.stride);
}
/// Frequencies m ... m + 63 of a job in shared memory.
template <int D, class Team>
BOCHNER_DEVICE void load_frequencies(const Team& team, const PackedFrequencies& omega, int64_t job, int64_t m,
                                     bfloat16* tile) {
  load_rows<D>(team, omega.rows + (omega.place(job) + m) * D, tile);
}
/// The sums of these frequencies, and z: `index` is a job, or a tile of a slab.
template <int D, int parts, class Team>
BOCHNER_DEVICE void load_sums(const Team& team, const PackedSums& sums, int64_t index, const PackedFrequencies& omega,
                              int64_t m, bfloat16* tile, float* z) {
  for (int part = 0; part < parts; ++part) {
    const int64_t from = (index * parts + part) * omega.padded + m;
    load_rows<D>(team, sums.rows + from * D, tile + part * kTile * (D + kGap));
    for (int i = team.rank(); i < kTile; i += team.size()) z[part * kTile + i] = sums.z[from + i];
  }
}

/// `less`, `weight` and `last` of a tile of tokens, in shared memory.
struct TileScales {
  float *less, *weight, *last;
  static constexpr size_t kBytes = sizeof(float) * 3 * kTile;

  BOCHNER_DEVICE explicit TileScales(float* memory) : less(memory), weight(less + kTile), last(weight + kTile) {}
  template <class Team>
  BOCHNER_DEVICE void load(const Team& team, const TokenSide& tokens, int64_t at) const {
    for (int i = team.rank(); i < kTile; i += team.size()) {
      less[i] = tokens.less[at + i];
      weight[i] = tokens.weight[at + i];
      last[i] = tokens.last[at + i];
    }
  }
};

/// Writes a warp's rows of sums: those from `first` on of (count, D + 1), z being the last column.
template <int D>
BOCHNER_DEVICE void write_sums(Sum<D / 8>& sum, RowValues& z, int64_t first, int64_t count, float* to) {
  to += first * (D + 1);
  sum.each([&](int row, int column, float& value) {
    if (first + row < count) to[row * (D + 1) + column] = value;
  });
  z.each([&](int row, float& value) {
    if (RowValues::first() && first + row < count) to[row * (D + 1) + D] = value;
  });
}

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

/// Bytes of shared memory that add_outputs takes.
template <int D, int parts>
inline constexpr size_t kOutputTiles = sizeof(bfloat16) * (1 + parts) * kTile*(D + kGap) + parts *
                                                                                               sizeof(float) * kTile;
/// For all tokens of a block: o_i += sum_f F_if S'_f and denominator_i += sum_f F_if z_f with F = feature(phi(x)).
/// `index` is that of load_sums.
template <int D, Form form, class Team, class Rows, class Feature>
BOCHNER_DEVICE void add_outputs(const Team& team, const Phi<form>& phi, const PackedFrequencies& omega, int64_t job,
                                const PackedSums& sums, int64_t index, const Feature& feature, bfloat16* memory,
                                Rows* rows) {
  constexpr int kParts = Phi<form>::kParts;
  bfloat16* tile_omega = memory;
  bfloat16* tile_sums = tile_omega + kTile * (D + kGap);
  auto* z = reinterpret_cast<float*>(tile_sums + kParts * kTile * (D + kGap));
  for (int64_t m = 0; m < omega.padded; m += kTile) {
    team.sync();
    load_frequencies<D>(team, omega, job, m, tile_omega);
    load_sums<D, kParts>(team, sums, index, omega, m, tile_sums, z);
    team.sync();
    for (int s = 0; s < kTokenShare; ++s) {
      Rows& own = rows[s];
      Sum<kTile / 8> u;
      u.clear();
      multiply_rows(u, own.x, tile_omega, D + kGap);
      each_part<kParts>([&](auto part) {
        Sum<kTile / 8> f = u;
        f.zip([&](Place at, float& value) {
          value = round_to_bf16(feature(phi.template at<part()>(value, own.less.at(at), own.weight.at(at)).value));
        });
        multiply_columns(own.o, Left<kTile / 16>::of(f), tile_sums + part() * kTile * (D + kGap), D + kGap);
        f.each([&](int, int column, float& value) { value *= z[part() * kTile + column]; });
        own.denominator = RowValues::of(own.denominator, f.rows(Plus{}), Plus{});
      });
    }
  }
}

/// Where O of queries, or dV of keys, goes.
template <int D>
struct OutputRows {
  int64_t heads;
  const TokenSide& tokens;
  const KeyMask& mask;
  float* denominators;  ///< (jobs, length), or null: the outputs are not divided
  const StoredTokens& to;

  BOCHNER_DEVICE void write(int64_t job, int64_t token, RunningOutputs<D>& rows) const {
    const int64_t b = job / heads;
    const StoredTokens::Head out = to.head(b, job % heads);
    rows.denominator.each([&](int row, float& value) {
      if (denominators == nullptr) {
        value = 1;
      } else if (RowValues::first() && token + row < tokens.length) {
        denominators[job * tokens.length + token + row] = value;
      }
    });
    rows.o.each(rows.denominator, [&](int row, int column, float& value, float denominator) {
      if (token + row >= tokens.length) return;
      const float inverse = mask.real(b, token + row) ? inverse_of_weights(denominator) : 0.0f;
      out.put(token + row, column, inverse != 0 ? value * inverse : 0.0f);
    });
  }
};

/// tops (jobs, padded) = the largest u, or |u|, of each token.
template <int D, Form form>
struct TokenTops {
  static constexpr size_t kShared = sizeof(bfloat16) * kTile * (D + kGap);
  PackedFrequencies omega;
  TokenSide tokens;
  float scale;
  float* tops;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / (tokens.padded / kTile);
    const int64_t first = team.index() % (tokens.padded / kTile) * kTile;
    auto* tile = team.template shared<bfloat16>();
    RowValues top[kTokenShare];
    Left<D / 16> x[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      x[s].load(tokens.x.at(job, first + 16 * warp_of(team, s)), tokens.x.tokens.stride);
      top[s] = RowValues::filled(no_exponent<float>());
    }
    for (int64_t m = 0; m < omega.count; m += kTile) {
      team.sync();
      load_frequencies<D>(team, omega, job, m, tile);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Sum<kTile / 8> u;
        u.clear();
        multiply_rows(u, x[s], tile, D + kGap);
        u.each([&](int, int, float& value) {
          value *= scale;
          if constexpr (form == Form::hyperbolic) value = math::abs(value);
        });
        top[s] = RowValues::of(top[s], u.rows(Larger{}), Larger{});
      }
    }
    for (int s = 0; s < kTokenShare; ++s) {
      top[s].each([&](int row, float& value) {
        if (RowValues::first()) tops[job * tokens.padded + first + 16 * warp_of(team, s) + row] = value;
      });
    }
  }
};

}  // namespace bochner::cuda
