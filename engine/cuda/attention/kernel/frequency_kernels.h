// The kernels of bidirectional kernel attention whose rows are frequencies: sums over tokens, and the gradient of
// Omega. tiles.h has the formulas.
#pragma once

#include "engine/cuda/attention/kernel/token_rows.h"

namespace bochner::cuda {

/// The tokens of a head, 64 at a time, through two buffers in shared memory.
template <int D, int threads>
struct TokenTiles {
  static constexpr int kStride = D + kGap;
  static constexpr int kElements = kTile * kStride;
  static constexpr size_t kBuffer = sizeof(bfloat16) * 2 * kElements + sizeof(float) * 3 * kTile;
  static constexpr size_t kShared = 2 * kBuffer;

  const TokenRows& tokens;
  int64_t b;
  const bfloat16 *rows_x, *rows_y;
  int64_t at;  ///< of the job in arrays (jobs, padded)
  unsigned char* memory;

  BOCHNER_DEVICE TokenTiles(const TokenRows& all, int64_t job, unsigned char* shared)
      : tokens(all),
        b(job / all.heads),
        rows_x(all.x.head(b, job % all.heads)),
        rows_y(all.y.head(b, job % all.heads)),
        at(job * all.padded),
        memory(shared) {}

  /// What the buffer holds for each token.
  struct Numbers {
    float *less, *factor, *last;
  };
  BOCHNER_DEVICE bfloat16* x(int buffer) const { return reinterpret_cast<bfloat16*>(memory + buffer * kBuffer); }
  BOCHNER_DEVICE bfloat16* y(int buffer) const { return x(buffer) + kElements; }
  BOCHNER_DEVICE Numbers numbers(int buffer) const {
    auto* first = reinterpret_cast<float*>(y(buffer) + kElements);
    return {first, first + kTile, first + 2 * kTile};
  }

  template <class Team>
  BOCHNER_DEVICE void begin(const Team& team, int64_t token, int buffer) const {
    const bfloat16* from_x = rows_x + token * tokens.x.stride;
    const bfloat16* from_y = rows_y + token * tokens.y.stride;
    if (tokens.mask.data == nullptr && token + kTile <= tokens.length) {
      begin_tile<D, kTile, threads>(team, from_x, tokens.x.stride, x(buffer), kStride);
      begin_tile<D, kTile, threads>(team, from_y, tokens.y.stride, y(buffer), kStride);
    } else {
      spread_tile<D, kTile, threads>(team, [&](int row, int column) {
        const bool there = tokens.real(b, token + row);
        const int64_t source = there ? row : 0;
        const int target = row * kStride + column;
        begin_sixteen(from_x + source * tokens.x.stride + column, x(buffer) + target, there);
        begin_sixteen(from_y + source * tokens.y.stride + column, y(buffer) + target, there);
      });
    }
    const Numbers to = numbers(buffer);
    begin_numbers<kTile, threads>(team, tokens.less + at + token, to.less);
    if (tokens.factor == nullptr) return;
    begin_numbers<kTile, threads>(team, tokens.factor + at + token, to.factor);
    begin_numbers<kTile, threads>(team, tokens.last + at + token, to.last);
  }
  /// body(buffer) for every 64 tokens from `first` to before `end`.
  template <class Team, class Body>
  BOCHNER_DEVICE void each(const Team& team, int64_t first, int64_t end, const Body& body) const {
    if (first >= end) return;
    if (tokens.factor == nullptr) {
      spread<2 * kTile, threads>(team, [&](int i) {
        numbers(0).factor[i] = 1;  // and `last`, which comes next
        numbers(1).factor[i] = 1;
      });
    }
    begin(team, first, 0);
    int buffer = 0;
    for (int64_t token = first; token < end; token += kTile, buffer = 1 - buffer) {
      wait_for_copies();
      team.sync();
      if (token + kTile < end) begin(team, token + kTile, 1 - buffer);
      join_lanes();
      body(buffer);
    }
  }
};

/// The frequencies of a block and the tokens that it sums over.
struct FrequencyBlock {
  int64_t m, job, split, first, end;

  template <class Team>
  BOCHNER_DEVICE FrequencyBlock(const Team& team, const PackedFrequencies& omega, const TokenRows& tokens, int64_t jobs,
                                int64_t tokens_each) {
    const int64_t blocks = ceil_div(omega.padded, int64_t{kBlockRows});
    m = team.index() % blocks * kBlockRows;
    job = team.index() / blocks % jobs;
    split = team.index() / blocks / jobs;
    first = split * tokens_each;
    end = first + tokens_each < tokens.length ? first + tokens_each : tokens.length;
  }
};

/// Sums over the tokens of a split, (splits, jobs, F, D + 1), and those of y' alone, (splits, jobs, D + 1); one block
/// per 128 frequencies.
template <int D, Form form>
struct SumsOverTokens {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kGroups = kParts == 1 ? 2 : 1;
  static constexpr int kWarpsHere = kWarpsOf<kGroups>;
  static constexpr int kThreads = 32 * kWarpsHere;
  static constexpr int kResident = kGroups == 2 ? 3 : 1;
  static constexpr int kShare = kWarpShare<kWarpsHere>;
  static constexpr int kTotals = 16;  ///< columns of the sums of y' that a warp computes
  using Tiles = TokenTiles<D, kThreads>;
  static constexpr size_t kShared = Tiles::kShared;
  Phi<form> phi;
  PackedFrequencies omega;
  TokenRows tokens;
  int64_t jobs, features, tokens_each;  ///< tokens_each: per split
  float *parts, *totals;                ///< totals: may be null

  struct Rows {
    Left<D / 16> omega[kGroups];
    Sum<D / 8> sum[kParts][kGroups];
    RowValues z[kParts][kGroups];
    Sum<kTotals / 8> total[1];
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const FrequencyBlock block(team, omega, tokens, jobs, tokens_each);
    const Tiles tiles(tokens, block.job, team.template shared<unsigned char>());
    const float held = kLog2E * tokens.held(block.job);
    const bool adds_totals = totals != nullptr && block.m == 0;
    Rows rows[kShare];
    for (int s = 0; s < kShare; ++s) {
      rows[s].total[0].clear();
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        rows[s].omega[r] = load_left<D / 16>(omega.rows + omega.place(block.job) * D, D,
                                             block.m + 16 * (kGroups * warp_of(team, s) + r), omega.padded);
        each_part<kParts>([&](auto part) {
          rows[s].sum[part()][r].clear();
          rows[s].z[part()][r] = RowValues::filled(0);
        });
      }
    }
    float last = 0;  // the total of `last`
    tiles.each(team, block.first, block.end, [&](int buffer) {
      for (int s = 0; s < kShare; ++s) {
        if (block.m + 16 * kGroups * warp_of(team, s) < omega.padded) {
          for (int t = 0; t < kTile; t += kStep) add(tiles, buffer, t, held, rows[s]);
        }
        if (adds_totals && kTotals * warp_of(team, s) < D)
          add_totals(tiles, buffer, kTotals * warp_of(team, s), rows[s]);
      }
      if (!adds_totals) return;
      const auto numbers = tiles.numbers(buffer);
      spread<kTile, kThreads>(team, [&](int i) {
        const bool real = tokens.factor != nullptr || numbers.less[i] < std::numeric_limits<float>::infinity();
        if (real) last += numbers.factor[i] * numbers.last[i];
      });
    });
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        each_part<kParts>([&](auto part) {
          RowValues z = joined(rows[s].z[part()][r], Plus{});
          write_sums<D>(rows[s].sum[part()][r], z, block.m + 16 * (kGroups * warp_of(team, s) + r), omega.count,
                        parts + ((block.split * jobs + block.job) * features + part() * omega.count) * (D + 1));
        });
      }
    }
    if (!adds_totals) return;
    float* to = totals + (block.split * jobs + block.job) * (D + 1);
    for (int s = 0; s < kShare; ++s) {
      const int first = kTotals * warp_of(team, s);
      if (first >= D) continue;
      rows[s].total[0].each([&](int row, int column, float& value) {
        if (row == 0) to[first + column] = value;
      });
    }
    last = team.sum(last);
    if (team.rank() == 0) to[D] = last;
  }

 private:
  BOCHNER_DEVICE void add(const Tiles& tiles, int buffer, int t, float held, Rows& own) const {
    constexpr bool kExponential = form == Form::positive || form == Form::hyperbolic;
    Sum<kStep / 8> u[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) u[r].clear();
    multiply_rows(u, own.omega, tiles.x(buffer) + t * Tiles::kStride, Tiles::kStride);
    const auto numbers = tiles.numbers(buffer);
    each_part<kParts>([&](auto part) {
      Left<kStep / 16> rounded_features[kGroups];
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        Sum<kStep / 8> value = u[r];
        value.zip([&](Place at, float& v) {
          const float less = numbers.less[t + at.column] + held;
          const float weight = kExponential ? 1.0f : fast_exp2(-less) * numbers.factor[t + at.column];
          v = phi.template at<part()>(v, less, weight).value;
        });
        rounded_features[r] = rounded<kStep / 16>(value);
        value.zip([&](Place at, float v) { own.z[part()][r].at(at) += v * numbers.last[t + at.column]; });
      }
      multiply_columns(own.sum[part()], rounded_features, tiles.y(buffer) + t * Tiles::kStride, Tiles::kStride);
    });
  }
  /// Columns first ... of the sums of y', in each row.
  BOCHNER_DEVICE void add_totals(const Tiles& tiles, int buffer, int first, Rows& own) const {
    const auto numbers = tiles.numbers(buffer);
    for (int t = 0; t < kTile; t += kStep) {
      Sum<kStep / 8> factors;
      factors.clear();
      factors.each([&](int, int column, float& value) { value = numbers.factor[t + column]; });
      const Left<kStep / 16> left[1] = {Left<kStep / 16>::of(factors)};
      multiply_columns(own.total, left, tiles.y(buffer) + t * Tiles::kStride + first, Tiles::kStride);
    }
  }
};

/// dOmega from the tokens of a split, (splits, jobs, M, D); one block per 128 frequencies.
template <int D, Form form>
struct GradientOfOmega {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kGroups = kParts == 1 ? 2 : 1;
  static constexpr int kThreads = 32 * kWarpsOf<kGroups>;
  static constexpr int kShare = kWarpShare<kWarpsOf<kGroups>>;
  using Tiles = TokenTiles<D, kThreads>;
  static constexpr size_t kShared = Tiles::kShared;
  Phi<form> phi;
  PackedFrequencies omega;
  TokenRows tokens;  ///< with no shift that is not part of `less`
  PackedSums sums;
  int64_t jobs, tokens_each;
  float* parts;

  struct Rows {
    Left<D / 16> omega[kGroups], sums[kParts][kGroups];
    RowValues z[kParts][kGroups];
    Sum<D / 8> domega[kGroups];
  };

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const FrequencyBlock block(team, omega, tokens, jobs, tokens_each);
    const Tiles tiles(tokens, block.job, team.template shared<unsigned char>());
    Rows rows[kShare];
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        const int64_t first = block.m + 16 * (kGroups * warp_of(team, s) + r);
        rows[s].omega[r] = load_left<D / 16>(omega.rows + omega.place(block.job) * D, D, first, omega.padded);
        each_part<kParts>([&](auto part) {
          const int64_t from = (block.job * kParts + part()) * omega.padded;
          rows[s].sums[part()][r] = load_left<D / 16>(sums.rows + from * D, D, first, omega.padded);
          rows[s].z[part()][r] = RowValues::load(sums.z + from + (first < omega.padded ? first : 0));
        });
        rows[s].domega[r].clear();
      }
    }
    tiles.each(team, block.first, block.end, [&](int buffer) {
      for (int s = 0; s < kShare; ++s) {
        if (block.m + 16 * kGroups * warp_of(team, s) >= omega.padded) continue;
        for (int t = 0; t < kTile; t += kStep) add(tiles, buffer, t, rows[s]);
      }
    });
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        const int64_t first = block.m + 16 * (kGroups * warp_of(team, s) + r);
        float* to = parts + ((block.split * jobs + block.job) * omega.count + first) * D;
        rows[s].domega[r].each([&](int row, int column, float& value) {
          if (first + row < omega.count) to[row * D + column] = phi.scale * value;
        });
      }
    }
  }

 private:
  BOCHNER_DEVICE void add(const Tiles& tiles, int buffer, int t, Rows& own) const {
    constexpr bool kExponential = form == Form::positive || form == Form::hyperbolic;
    const bfloat16* x = tiles.x(buffer) + t * Tiles::kStride;
    const auto numbers = tiles.numbers(buffer);
    Sum<kStep / 8> u[kGroups];
    Sum<kStep / 8> du[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) {
      u[r].clear();
      du[r].clear();
    }
    multiply_rows(u, own.omega, x, Tiles::kStride);
    each_part<kParts>([&](auto part) {
      Sum<kStep / 8> df[kGroups];
#pragma unroll
      for (int r = 0; r < kGroups; ++r) df[r].clear();
      multiply_rows(df, own.sums[part()], tiles.y(buffer) + t * Tiles::kStride, Tiles::kStride);
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        df[r].zip(
            [&](Place at, float flow, float projection, float& into) {
              const int token = t + at.column;
              const float less = numbers.less[token];
              const float weight = kExponential ? 1.0f : fast_exp2(-less) * numbers.factor[token];
              const auto f = phi.template at<part()>(projection, less, weight);
              into += (flow + own.z[part()][r].at(at) * numbers.last[token]) * f.slope;
            },
            u[r], du[r]);
      }
    });
    Left<kStep / 16> flows[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) flows[r] = Left<kStep / 16>::of(du[r]);
    multiply_columns(own.domega, flows, x, Tiles::kStride);
  }
};

}  // namespace bochner::cuda
