// The kernels of bidirectional kernel attention whose rows are tokens: exponents of keys, outputs of queries, and
// gradients of tokens, including those of values. tiles.h has the formulas.
#pragma once

#include "engine/cuda/attention/kernel/token_rows.h"

namespace bochner::cuda {

/// One block per 128 tokens of a head.
struct TokenBlock {
  int64_t job, b, h, first, at;  ///< at: of `first` in arrays (jobs, padded)

  template <class Team>
  BOCHNER_DEVICE TokenBlock(const Team& team, const TokenRows& tokens)
      : job(team.index() / (tokens.padded / kBlockRows)),
        b(job / tokens.heads),
        h(job % tokens.heads),
        first(team.index() % (tokens.padded / kBlockRows) * kBlockRows),
        at(job * tokens.padded + first) {}
};

/// `less` of keys and, if they are shifted, the largest exponent of each block's keys, (jobs, padded / 128).
template <int D, Form form>
struct KeyExponents {
  static constexpr int kGroups = 2;
  static constexpr int kThreads = 32 * kWarpsOf<kGroups>;
  static constexpr int kResident = 4;
  static constexpr int kShare = kWarpShare<kWarpsOf<kGroups>>;
  using Tiles = FrequencyTiles<D, 0, kThreads>;
  static constexpr size_t kShared = 2 * Tiles::kBuffer;
  Phi<form> phi;
  PackedFrequencies omega;
  TokenRows tokens;
  float* largest;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const TokenBlock block(team, tokens);
    const PackedSums none{};
    const Tiles tiles(omega, none, block.job, block.job, team.template shared<unsigned char>());
    WeighedRows<D, kGroups> rows[kShare];
    weigh_rows<D, form, kGroups>(team, phi, tokens, Shift::none, block.job, block.first, tiles, rows);
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        const int64_t group = 16 * (kGroups * warp_of(team, s) + r);
        rows[s].less[r].each([&](int row, float& value) {
          if (RowValues::first()) tokens.less[block.at + group + row] = value;
        });
      }
    }
    if (!phi.rule.shifts) return;
    constexpr bool kExponential = form == Form::positive || form == Form::hyperbolic;
    if constexpr (kExponential) largest_of_rows<D, form, kGroups>(team, phi, tiles, rows);
    float most = no_exponent<float>();
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        const int64_t token = block.first + 16 * (kGroups * warp_of(team, s) + r);
        auto exponents = kExponential ? RowValues::of(rows[s].less[r], rows[s].norm[r],
                                                      [](float top, float norm) { return top - norm; })
                                      : rows[s].norm[r];
        exponents.each([&](int row, float& value) {
          if (tokens.real(block.b, token + row)) most = value > most ? value : most;
        });
      }
    }
    most = team.max(most);
    if (team.rank() == 0) largest[team.index()] = most;
  }
};

/// O and the denominators of queries.
template <int D, Form form>
struct OutputsOfQueries {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kGroups = kParts == 1 ? 2 : 1;
  static constexpr int kThreads = 32 * kWarpsOf<kGroups>;
  static constexpr int kResident = kGroups == 2 ? 3 : 2;
  static constexpr int kShare = kWarpShare<kWarpsOf<kGroups>>;
  using Tiles = FrequencyTiles<D, kParts, kThreads>;
  static constexpr size_t kShared = at_least_rows<D>(Tiles::kShared);
  Phi<form> phi;
  PackedFrequencies omega;
  TokenRows tokens;
  PackedSums sums;
  float eps;            ///< of the denominators
  float* denominators;  ///< (jobs, length), or null: the outputs are not divided
  OutputTokens out;

  struct Rows : WeighedRows<D, kGroups> {
    Sum<D / 8> o[kGroups];
    RowValues denominator[kGroups];
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const TokenBlock block(team, tokens);
    const Tiles tiles(omega, sums, block.job, block.job, team.template shared<unsigned char>());
    Rows rows[kShare];
    weigh_rows<D, form, kGroups>(team, phi, tokens, phi.rule.shifts ? Shift::largest : Shift::none, block.job,
                                 block.first, tiles, rows);
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        rows[s].o[r].clear();
        rows[s].denominator[r] = RowValues::filled(0);
      }
    }
    tiles.template each<true>(team, [&](int buffer, int64_t) {
      for (int s = 0; s < kShare; ++s) {
        for (int f = 0; f < kTile; f += kStep) add(tiles, buffer, f, rows[s]);
      }
    });
    finish(team, block, rows);
  }

 private:
  BOCHNER_DEVICE void add(const Tiles& tiles, int buffer, int f, Rows& own) const {
    Sum<kStep / 8> u[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) u[r].clear();
    multiply_rows(u, own.x, tiles.omega_at(buffer) + f * Tiles::kStride, Tiles::kStride);
    each_part<kParts>([&](auto part) {
      const float* z = tiles.z_at(buffer, part()) + f;
      Left<kStep / 16> features[kGroups];
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        Sum<kStep / 8> value = u[r];
        value.zip([&](Place at, float& v) {
          v = phi.template at<part()>(v, own.less[r].at(at), own.weight[r].at(at)).value;
        });
        features[r] = rounded<kStep / 16>(value);
        value.zip([&](Place at, float v) { own.denominator[r].at(at) += v * z[at.column]; });
      }
      multiply_columns(own.o, features, tiles.sums_at(buffer, part()) + f * Tiles::kStride, Tiles::kStride);
    });
  }
  template <class Team>
  BOCHNER_DEVICE void finish(const Team& team, const TokenBlock& block, Rows* rows) const {
    const float* base = sums.base == nullptr ? nullptr : sums.base + block.job * (D + 1);
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        const int64_t token = block.first + 16 * (kGroups * warp_of(team, s) + r);
        RowValues inverse = joined(rows[s].denominator[r], Plus{});
        inverse.each([&](int row, float& value) {
          value += eps + (base == nullptr ? 0.0f : base[D]);
          if (denominators == nullptr) {
            value = 1;
          } else if (RowValues::first() && token + row < tokens.length) {
            denominators[block.job * tokens.length + token + row] = value;
          }
          value = inverse_of_weights(value);
        });
        rows[s].o[r].zip([&](Place at, float& value) {
          if (base != nullptr) value += base[at.column];
          const float by = inverse.at(at);
          value = by != 0 ? value * by : 0.0f;
        });
      }
    }
    store<D, kGroups, kWarpsOf<kGroups>>(team, out, block.b, block.h, block.first, tokens.length,
                                         team.template shared<bfloat16>(),
                                         [&](int s, int r) -> Sum<D / 8>& { return rows[s].o[r]; });
  }
};

/// dQ of queries, or dK and dV of keys. Writes `less` of both for the sums over these tokens, and `factor` and `last`
/// of queries.
template <int D, Form form, bool keys>
struct GradientsOfTokens {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kGroups = kParts == 1 ? 2 : 1;
  static constexpr int kThreads = 32 * kWarpsOf<kGroups>;
  static constexpr int kResident = 2;  // at 256 threads, at most 128 registers
  static constexpr int kShare = kWarpShare<kWarpsOf<kGroups>>;
  using Tiles = FrequencyTiles<D, kParts, kThreads>;
  static constexpr size_t kShared = at_least_rows<D>(Tiles::kShared);
  Phi<form> phi;
  PackedFrequencies omega;
  TokenRows tokens;
  PackedSums sums;
  const float* denominators;       ///< of queries, (jobs, length), or null
  Tokens<const bfloat16> outputs;  ///< O, of queries
  OutputTokens dx, dy;             ///< dy: of keys

  struct Rows : WeighedRows<D, kGroups> {
    Left<D / 16> y[kGroups];
    Sum<D / 8> dx[kGroups], dy[keys ? kGroups : 1];
    RowValues last[kGroups], slope[kGroups];
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const TokenBlock block(team, tokens);
    const Tiles tiles(omega, sums, block.job, block.job, team.template shared<unsigned char>());
    Rows rows[kShare];
    weigh_rows<D, form, kGroups>(team, phi, tokens,
                                 !phi.rule.shifts ? Shift::none
                                 : keys           ? Shift::held
                                                  : Shift::largest,
                                 block.job, block.first, tiles, rows);
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) begin(block, 16 * (kGroups * warp_of(team, s) + r), r, rows[s]);
    }
    tiles.template each<true>(team, [&](int buffer, int64_t) {
      for (int s = 0; s < kShare; ++s) {
        for (int f = 0; f < kTile; f += kStep) add(tiles, buffer, f, rows[s]);
      }
    });
    finish(team, block, rows);
  }

 private:
  /// The factor of G = dO in the gradient of the numerator.
  BOCHNER_DEVICE float factor_of(int64_t job, int64_t token) const {
    if (token >= tokens.length) return 0;
    return denominators == nullptr ? 1.0f : inverse_in_gradients(denominators[job * tokens.length + token]);
  }
  BOCHNER_DEVICE void begin(const TokenBlock& block, int group, int r, Rows& own) const {
    const int64_t token = block.first + group;
    own.y[r] = load_left<D / 16>(tokens.y.head(block.b, block.h), tokens.y.stride, token, tokens.length);
    own.dx[r].clear();
    own.slope[r] = RowValues::filled(0);
    if constexpr (keys) {
      own.dy[r].clear();
      own.last[r] = RowValues::filled(1);
      own.less[r].each([&](int row, float& value) {
        if (RowValues::first()) tokens.less[block.at + group + row] = value;
      });
    } else {
      own.last[r] = RowValues::filled(0);
      if (denominators != nullptr) {
        own.last[r] =
            dots(own.y[r], load_left<D / 16>(outputs.head(block.b, block.h), outputs.stride, token, tokens.length));
      }
      own.last[r].each([&](int row, float& value) {
        value = -value;
        if (RowValues::first()) tokens.last[block.at + group + row] = value;
      });
      RowValues less = own.less[r];
      less.each([&](int row, float& value) {
        const float factor = factor_of(block.job, token + row);
        // exponentials include the factor
        if (form == Form::positive || form == Form::hyperbolic) value -= math::log(factor) * kLog2E;
        if (!RowValues::first()) return;
        tokens.factor[block.at + group + row] = factor;
        tokens.less[block.at + group + row] = value;
      });
    }
  }
  BOCHNER_DEVICE void add(const Tiles& tiles, int buffer, int f, Rows& own) const {
    const bfloat16* omega_rows = tiles.omega_at(buffer) + f * Tiles::kStride;
    Sum<kStep / 8> u[kGroups];
    Sum<kStep / 8> du[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) {
      u[r].clear();
      du[r].clear();
    }
    multiply_rows(u, own.x, omega_rows, Tiles::kStride);
    each_part<kParts>([&](auto part) {
      const bfloat16* sum_rows = tiles.sums_at(buffer, part()) + f * Tiles::kStride;
      const float* z = tiles.z_at(buffer, part()) + f;
      Sum<kStep / 8> df[kGroups];
      Left<kStep / 16> features[kGroups];
#pragma unroll
      for (int r = 0; r < kGroups; ++r) df[r].clear();
      multiply_rows(df, own.y, sum_rows, Tiles::kStride);
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        Sum<kStep / 8> values;
        values.zip(
            [&](Place at, float& value, float flow, float projection, float& into) {
              const auto f_at = phi.template at<part()>(projection, own.less[r].at(at), own.weight[r].at(at));
              flow += own.last[r].at(at) * z[at.column];
              into += flow * f_at.slope;
              if constexpr (form != Form::elementwise) own.slope[r].at(at) += flow * f_at.value;
              value = f_at.value;
            },
            df[r], u[r], du[r]);
        features[r] = Left<kStep / 16>::of(values);
      }
      if constexpr (keys) multiply_columns(own.dy, features, sum_rows, Tiles::kStride);
    });
    Left<kStep / 16> flows[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) flows[r] = Left<kStep / 16>::of(du[r]);
    multiply_columns(own.dx, flows, omega_rows, Tiles::kStride);
  }
  template <class Team>
  BOCHNER_DEVICE void finish(const Team& team, const TokenBlock& block, Rows* rows) const {
    auto* memory = team.template shared<bfloat16>();
    const float* base = sums.base == nullptr ? nullptr : sums.base + block.job * (D + 1);
    const float by = phi.rule.exponent ? phi.rule.norm_slope() * phi.scale : 0.0f;
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        Rows& own = rows[s];
        const int64_t token = block.first + 16 * (kGroups * warp_of(team, s) + r);
        RowValues slope = joined(own.slope[r], Plus{});
        slope.each([&](int, float& value) { value *= by; });
        RowValues factor = RowValues::filled(0);  // 0: a hidden key, whose gradient may hold any values before
        factor.each([&](int row, float& value) {
          value = keys ? (tokens.real(block.b, token + row) ? 1.0f : 0.0f) : factor_of(block.job, token + row);
        });
        auto x = widened(own.x[r]);
        own.dx[r].zip(
            [&](Place at, float& value, float from) {
              const float scale = factor.at(at) * phi.scale;
              value = scale != 0 ? scale * (value + slope.at(at) * from) : 0.0f;
            },
            x);
        if constexpr (keys) {
          own.dy[r].zip([&](Place at, float& value) {
            if (base != nullptr) value += base[at.column];
            value = factor.at(at) != 0 ? value : 0.0f;
          });
        }
      }
    }
    store<D, kGroups, kWarpsOf<kGroups>>(team, dx, block.b, block.h, block.first, tokens.length, memory,
                                         [&](int s, int r) -> Sum<D / 8>& { return rows[s].dx[r]; });
    if constexpr (keys) {
      store<D, kGroups, kWarpsOf<kGroups>>(team, dy, block.b, block.h, block.first, tokens.length, memory,
                                           [&](int s, int r) -> Sum<D / 8>& { return rows[s].dy[r]; });
    }
  }
};

}  // namespace bochner::cuda
