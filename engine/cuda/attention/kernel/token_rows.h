// Common to the kernels of bidirectional kernel attention on tensor cores: tokens read in place, frequencies that
// stream through shared memory, exponents of tokens, and rows of outputs. A block has 128 tokens, or 128 frequencies,
// and a warp has R groups of 16 of them, which share what the warp reads from shared memory: two if registers allow.
#pragma once

#include "engine/cuda/attention/kernel/tiles.h"
#include "engine/cuda/parts/warp_matrix.h"

namespace bochner::cuda {

constexpr int kBlockRows = 128;  // tokens, or frequencies, per block
constexpr int kStep = 16;        // frequencies, or tokens, after which a warp switches from one product to the next

/// The warps of a block in which each warp has R groups of 16 rows.
template <int R>
inline constexpr int kWarpsOf = kBlockRows / (16 * R);

/// The tokens of one side, (batch, heads, length, D), with numbers for each, (jobs, padded): jobs are b * heads + h.
struct TokenRows {
  int64_t heads, length, padded;
  Tokens<const bfloat16> x, y;  ///< y: values, or gradients of outputs
  KeyMask mask;
  float* less;           ///< subtracted from exponents, in units of log 2; infinite for tokens that are not real
  float *factor, *last;  ///< of queries: the factor for y', and its last element; null for 1
  const float* shift;    ///< of keys, `shift_stride` apart: not yet part of `less`; or null
  int64_t shift_stride;

  BOCHNER_DEVICE bool real(int64_t b, int64_t token) const { return token < length && mask.real(b, token); }
  BOCHNER_DEVICE float held(int64_t job) const { return shift == nullptr ? 0.0f : shift[job * shift_stride]; }
};

/// A warp's tokens x and what is subtracted from their exponents, with the weights of features that are not
/// exponentials.
template <int D, int R>
struct WeighedRows {
  Left<D / 16> x[R];
  RowValues less[R], weight[R], norm[R];
};

/// Which shift is applied to the exponents of tokens.
enum class Shift : uint8_t { none, held, largest };

/// less = the largest u, or |u|, of each row.
template <int D, Form form, int R, class Team, class Tiles, class Rows>
BOCHNER_DEVICE void largest_of_rows(const Team& team, const Phi<form>& phi, const Tiles& tiles, Rows* rows) {
  constexpr int kShare = kWarpShare<kWarpsOf<R>>;
  for (int s = 0; s < kShare; ++s) {
#pragma unroll
    for (int r = 0; r < R; ++r) rows[s].less[r] = RowValues::filled(no_exponent<float>());
  }
  tiles.template each<false>(team, [&](int buffer, int64_t) {
    const bfloat16* frequencies = tiles.omega_at(buffer);
    for (int s = 0; s < kShare; ++s) {
      for (int f = 0; f < kTile; f += 2 * kStep) {
        Sum<2 * kStep / 8> u[R];
#pragma unroll
        for (int r = 0; r < R; ++r) u[r].clear();
        multiply_rows(u, rows[s].x, frequencies + f * Tiles::kStride, Tiles::kStride);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          u[r].zip([&](Place at, float value) {
            value *= phi.scale;
            if constexpr (form == Form::hyperbolic) value = math::abs(value);
            float& largest = rows[s].less[r].at(at);
            largest = larger(value, largest);
          });
        }
      }
    }
  });
  for (int s = 0; s < kShare; ++s) {
#pragma unroll
    for (int r = 0; r < R; ++r) rows[s].less[r] = joined(rows[s].less[r], Larger{});
  }
}

/// Bytes of shared memory, with space for the rows that store() writes.
template <int D>
constexpr size_t at_least_rows(size_t bytes) {
  constexpr size_t kRows = sizeof(bfloat16) * kBlockRows * (D + kGap);
  return bytes > kRows ? bytes : kRows;
}

/// Loads x and finds `less`, without regard to a key's mask.
template <int D, Form form, int R, class Team, class Tiles, class Rows>
BOCHNER_DEVICE void weigh_rows(const Team& team, const Phi<form>& phi, const TokenRows& tokens, Shift shift,
                               int64_t job, int64_t first, const Tiles& tiles, Rows* rows) {
  constexpr int kShare = kWarpShare<kWarpsOf<R>>;
  const int64_t b = job / tokens.heads;
  const bfloat16* x = tokens.x.head(b, job % tokens.heads);
  for (int s = 0; s < kShare; ++s) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      rows[s].x[r] = load_left<D / 16>(x, tokens.x.stride, first + 16 * (R * warp_of(team, s) + r), tokens.length);
      rows[s].norm[r] = RowValues::filled(0);
      if (phi.rule.exponent) {
        const float by = phi.rule.norm_factor * phi.scale * phi.scale;
        rows[s].norm[r] = dots(rows[s].x[r], rows[s].x[r]);
        rows[s].norm[r].each([&](int, float& value) { value *= by; });
      }
    }
  }
  if constexpr (form == Form::positive || form == Form::hyperbolic) {
    const float held = shift == Shift::held ? tokens.held(job) : 0.0f;
    if (shift == Shift::largest) {
      largest_of_rows<D, form, R>(team, phi, tiles, rows);
    } else {
      for (int s = 0; s < kShare; ++s) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          rows[s].less[r] = rows[s].norm[r];
          rows[s].less[r].each([&](int, float& value) { value += held; });
        }
      }
    }
  } else {
    const bool shifted = shift == Shift::largest || !phi.rule.exponent;  // to exp(0)
    const float held = shift == Shift::held ? tokens.held(job) : 0.0f;
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        rows[s].less[r] = rows[s].norm[r];
        rows[s].less[r].each([&](int, float& value) { value = shifted ? 0.0f : held - value; });
      }
    }
  }
  for (int s = 0; s < kShare; ++s) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t token = first + 16 * (R * warp_of(team, s) + r);
      rows[s].less[r].each([&](int row, float& value) {
        value = tokens.real(b, token + row) ? kLog2E * value : std::numeric_limits<float>::infinity();
      });
      rows[s].weight[r] = rows[s].less[r];
      rows[s].weight[r].each([&](int, float& value) { value = fast_exp2(-value); });
    }
  }
}

}  // namespace bochner::cuda
