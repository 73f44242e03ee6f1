// The products of kernel attention on tensor cores (engine/ops/kernel_attention.h): features are made in registers from
// U = Omega x and used there, so that neither they nor their gradients reach memory. Two pairs of kernels, each the
// other with tokens and frequencies exchanged, serve queries and keys, forward and backward, alike:
//
//   sums over tokens       S'_f  = sum_i phi_f(x_i) y'_i                     S' from (k, v'), dS' from (q, G')
//   outputs of tokens      y'_i  = sum_f phi_f(x_i) S'_f                     O' from (q, S'), dV' from (k, dS')
//   gradient of tokens     dx_i  = sum_f dU_fi Omega_f                       dQ from (q, G', S'), dK from (k, v', dS')
//   gradient of Omega      dOmega_f = sum_i dU_fi x_i,  dU_fi = phi'_f(x_i) S'_f . y'_i
//
// where y' = (y, last): v' = (v, 1) and G' of engine/cuda/attention/kernel_attention_parts.h. Factors are rounded to
// bf16; sums, exponentials, `last` and z, the last column of S', are f32, and z and denominators are made of the same
// rounded features as the rest, so that more of what should cancel does. The eps and constant of a map are no part of
// phi here: they go into sums as a whole (kernel_attention_bf16.cu). The gradients are in
// kernel_attention_gradient_tiles.h.
#pragma once

#include "engine/cuda/attention/feature_rows.h"
#include "engine/cuda/parts/packed.h"
#include "engine/cuda/parts/warp_tile.h"

namespace bochner::cuda {

constexpr int kWarps = 4;  // of a block: 64 tokens, or frequencies
constexpr int kTokenShare = kWarpShare<kWarps>;

enum class Form : uint8_t { positive, hyperbolic, trigonometric, elementwise };

struct FeatureValue {
  float value, slope;  ///< phi and d phi / d u
};

/// phi of one token and frequency. `less` is taken off exponents (in units of log 2; infinite for keys that are not
/// real), `weight` is multiplied with where the map is no exponential of u.
template <Form form>
struct Phi {
  static constexpr int kParts = form == Form::hyperbolic || form == Form::trigonometric ? 2 : 1;
  FeatureRule<float> rule;

  template <int part>
  BOCHNER_DEVICE FeatureValue at(float u, float less, float weight) const {
    if constexpr (form == Form::positive || form == Form::hyperbolic) {
      const float sign = part == 0 ? 1.0f : -1.0f;
      const float value = fast_exp2(sign * kLog2E * u - less);
      return {value, sign * value};
    } else if constexpr (form == Form::trigonometric) {
      float sine = 0;
      float cosine = 0;
      fast_sincos(u, sine, cosine);
      return part == 0 ? FeatureValue{weight * cosine, -weight * sine} : FeatureValue{weight * sine, weight * cosine};
    } else {
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

/// Packed frequencies. Rows beyond the last repeat earlier ones, so that no exponent is larger than that of a real one;
/// sums are 0 there.
struct PackedFrequencies {
  int64_t heads;                   ///< of the tokens
  int64_t count, padded;           ///< M, and that in whole tiles
  bool shared;                     ///< one Omega for all heads
  const bfloat16 *rows, *columns;  ///< (1 or heads, padded, D) and its transpose

  BOCHNER_DEVICE int64_t place(int64_t job) const { return shared ? 0 : job % heads * padded; }
};

/// Packed tokens of one side, (jobs, padded, ...).
struct TokenSide {
  int64_t length, padded;
  const bfloat16 *x, *xt;  ///< scale times the tokens, and transposed
  const bfloat16 *y, *yt;  ///< V or G, likewise
  const float *less, *weight, *last;
};

/// S' or dS', packed: (jobs, parts, padded frequencies, ...).
struct PackedSums {
  const bfloat16 *rows, *columns;  ///< without z, and transposed
  const float* z;
  const float* base;  ///< (jobs, D + 1): what is added to each output, or null
};

/// In shared memory, frequencies m ... m + 63 of a job.
template <int D, class Team>
BOCHNER_DEVICE void load_frequencies(const Team& team, const PackedFrequencies& omega, int64_t job, int64_t m,
                                     bfloat16* tile) {
  copy_tile(team, omega.rows + (omega.place(job) + m) * D, D, kTile, D, tile, D + kGap);
}
/// The sums of these frequencies as outputs read them, and z: `index` is a job, or a tile of a slab.
template <int D, int parts, class Team>
BOCHNER_DEVICE void load_sums(const Team& team, const PackedSums& sums, int64_t index, const PackedFrequencies& omega,
                              int64_t m, bfloat16* columns, float* z) {
  for (int part = 0; part < parts; ++part) {
    const int64_t block = index * parts + part;
    copy_tile(team, sums.columns + block * D * omega.padded + m, omega.padded, D, kTile,
              columns + part * D * (kTile + kGap), kTile + kGap);
    for (int i = team.rank(); i < kTile; i += team.size()) z[part * kTile + i] = sums.z[block * omega.padded + m + i];
  }
}
/// The frequencies, also transposed, and their sums, as gradients of tokens read them.
template <int D, int parts, class Team>
BOCHNER_DEVICE void load_for_gradients(const Team& team, const PackedFrequencies& omega, int64_t job,
                                       const PackedSums& sums, int64_t index, int64_t m, bfloat16* tile_omega,
                                       bfloat16* tile_columns, bfloat16* tile_sums, float* z) {
  load_frequencies<D>(team, omega, job, m, tile_omega);
  copy_tile(team, omega.columns + omega.place(job) * D + m, omega.padded, D, kTile, tile_columns, kTile + kGap);
  for (int part = 0; part < parts; ++part) {
    const int64_t from = (index * parts + part) * omega.padded + m;
    copy_tile(team, sums.rows + from * D, D, kTile, D, tile_sums + part * kTile * (D + kGap), D + kGap);
    for (int i = team.rank(); i < kTile; i += team.size()) z[part * kTile + i] = sums.z[from + i];
  }
}

/// tops (jobs, padded) = the largest u, or |u|, of each token.
template <int D, Form form>
struct TokenTops {
  static constexpr size_t kShared = sizeof(bfloat16) * kTile * (D + kGap);
  PackedFrequencies omega;
  TokenSide tokens;
  float* tops;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / (tokens.padded / kTile);
    const int64_t first = team.index() % (tokens.padded / kTile) * kTile;
    auto* tile = team.template shared<bfloat16>();
    RowValues top[kTokenShare];
    Left<D / 16> x[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      x[s].load(tokens.x + (job * tokens.padded + first + 16 * warp_of(team, s)) * D, D);
      top[s] = RowValues::filled(no_exponent<float>());
    }
    for (int64_t m = 0; m < omega.count; m += kTile) {
      team.sync();
      load_frequencies<D>(team, omega, job, m, tile);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Sum<kTile / 8> u;
        u.clear();
        multiply(u, x[s], tile, D + kGap);
        if constexpr (form == Form::hyperbolic) u.each([](int, int, float& value) { value = math::abs(value); });
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

/// Sums over the tokens of a split: (splits, jobs, F, D + 1); a block for 64 frequencies.
template <int D, Form form>
struct SumsOverTokens {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared =
      sizeof(bfloat16) * (kTile * (D + kGap) + D * (kTile + kGap)) + sizeof(float) * 3 * kTile;
  Phi<form> phi;
  PackedFrequencies omega;
  TokenSide tokens;
  int64_t jobs, features, tokens_each;  ///< tokens_each: of a split
  float* parts;

  struct Rows {
    Left<D / 16> omega;
    Sum<D / 8> sum[kParts];
    RowValues z[kParts];
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = omega.padded / kTile;
    const int64_t m = team.index() % tiles * kTile;
    const int64_t job = team.index() / tiles % jobs;
    const int64_t split = team.index() / tiles / jobs;
    auto* tile_x = team.template shared<bfloat16>();
    bfloat16* tile_yt = tile_x + kTile * (D + kGap);
    auto* less = reinterpret_cast<float*>(tile_yt + D * (kTile + kGap));
    float* weight = less + kTile;
    float* last = weight + kTile;
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      rows[s].omega.load(omega.rows + (omega.place(job) + m + 16 * warp_of(team, s)) * D, D);
      each_part<kParts>([&](auto part) {
        rows[s].sum[part()].clear();
        rows[s].z[part()] = RowValues::filled(0);
      });
    }
    const int64_t end = (split + 1) * tokens_each < tokens.length ? (split + 1) * tokens_each : tokens.length;
    for (int64_t token = split * tokens_each; token < end; token += kTile) {
      const int64_t at = job * tokens.padded + token;
      team.sync();
      copy_tile(team, tokens.x + at * D, D, kTile, D, tile_x, D + kGap);
      copy_tile(team, tokens.yt + job * D * tokens.padded + token, tokens.padded, D, kTile, tile_yt, kTile + kGap);
      for (int i = team.rank(); i < kTile; i += team.size()) {
        less[i] = tokens.less[at + i];
        weight[i] = tokens.weight[at + i];
        last[i] = tokens.last[at + i];
      }
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Rows& own = rows[s];
        Sum<kTile / 8> u;
        u.clear();
        multiply(u, own.omega, tile_x, D + kGap);
        each_part<kParts>([&](auto part) {
          Sum<kTile / 8> f = u;
          f.each([&](int, int column, float& value) {
            value = round_to_bf16(phi.template at<part()>(value, less[column], weight[column]).value);
          });
          multiply(own.sum[part()], Left<kTile / 16>::of(f), tile_yt, kTile + kGap);
          f.each([&](int, int column, float& value) { value *= last[column]; });
          own.z[part()] = RowValues::of(own.z[part()], f.rows(Plus{}), Plus{});
        });
      }
    }
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t own = m + 16 * warp_of(team, s);
      each_part<kParts>([&](auto part) {
        float* to = parts + ((split * jobs + job) * features + part() * omega.count + own) * (D + 1);
        rows[s].sum[part()].each([&](int row, int column, float& value) {
          if (own + row < omega.count) to[row * (D + 1) + column] = value;
        });
        rows[s].z[part()].each([&](int row, float& value) {
          if (RowValues::first() && own + row < omega.count) to[row * (D + 1) + D] = value;
        });
      });
    }
  }
};

/// O and the denominators of queries, or dV of keys; a block for 64 tokens of a head.
template <int D, Form form>
struct OutputsOfTokens {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr size_t kShared =
      sizeof(bfloat16) * (kTile * (D + kGap) + kParts * D * (kTile + kGap)) + sizeof(float) * kParts * kTile;
  Phi<form> phi;
  PackedFrequencies omega;
  TokenSide tokens;
  PackedSums sums;
  KeyMask mask;
  float eps;            ///< of the denominators
  float* denominators;  ///< (jobs, length), or null: the outputs are not divided
  StoredTokens to;

  struct Rows {
    Left<D / 16> x;
    Sum<D / 8> o;
    RowValues less, weight, denominator;
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / (tokens.padded / kTile);
    const int64_t first = team.index() % (tokens.padded / kTile) * kTile;
    auto* tile_omega = team.template shared<bfloat16>();
    bfloat16* tile_sums = tile_omega + kTile * (D + kGap);
    auto* z = reinterpret_cast<float*>(tile_sums + kParts * D * (kTile + kGap));
    Rows rows[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      const int64_t at = job * tokens.padded + first + 16 * warp_of(team, s);
      rows[s].x.load(tokens.x + at * D, D);
      rows[s].o.clear();
      rows[s].less.each([&](int row, float& value) { value = tokens.less[at + row]; });
      rows[s].weight.each([&](int row, float& value) { value = tokens.weight[at + row]; });
      rows[s].denominator = RowValues::filled(0);
    }
    for (int64_t m = 0; m < omega.padded; m += kTile) {
      team.sync();
      load_frequencies<D>(team, omega, job, m, tile_omega);
      load_sums<D, kParts>(team, sums, job, omega, m, tile_sums, z);
      team.sync();
      for (int s = 0; s < kTokenShare; ++s) {
        Rows& own = rows[s];
        Sum<kTile / 8> u;
        u.clear();
        multiply(u, own.x, tile_omega, D + kGap);
        each_part<kParts>([&](auto part) {
          Sum<kTile / 8> f = u;
          f.zip([&](Place at, float& value) {
            value = round_to_bf16(phi.template at<part()>(value, own.less.at(at), own.weight.at(at)).value);
          });
          multiply(own.o, Left<kTile / 16>::of(f), tile_sums + part() * D * (kTile + kGap), kTile + kGap);
          f.each([&](int, int column, float& value) { value *= z[part() * kTile + column]; });
          own.denominator = RowValues::of(own.denominator, f.rows(Plus{}), Plus{});
        });
      }
    }
    const float* base = sums.base == nullptr ? nullptr : sums.base + job * (D + 1);
    const int64_t b = job / omega.heads;
    const StoredTokens::Head out = to.head(b, job % omega.heads);
    for (int s = 0; s < kTokenShare; ++s) {
      Rows& own = rows[s];
      const int64_t token = first + 16 * warp_of(team, s);
      own.denominator.each([&](int row, float& value) {
        value += eps + (base == nullptr ? 0.0f : base[D]);
        if (denominators == nullptr) {
          value = 1;
        } else if (RowValues::first() && token + row < tokens.length) {
          denominators[job * tokens.length + token + row] = value;
        }
      });
      own.o.each(own.denominator, [&](int row, int column, float& value, float denominator) {
        if (token + row >= tokens.length) return;
        const float sum = value + (base == nullptr ? 0.0f : base[column]);
        const float inverse = mask.real(b, token + row) ? inverse_of_weights(denominator) : 0.0f;
        out.put(token + row, column, inverse != 0 ? sum * inverse : 0.0f);
      });
    }
  }
};

}  // namespace bochner::cuda
