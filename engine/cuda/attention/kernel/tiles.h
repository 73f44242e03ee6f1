// The products of kernel attention on tensor cores (engine/ops/attention/kernel_attention.h): features are computed in
// registers from U = Omega x and used there, so that neither they nor their gradients reach memory. The rows of a
// kernel are tokens or frequencies (token_kernels.h, frequency_kernels.h); each kernel serves queries and keys, forward
// and backward:
//
//   sums over tokens       S'_f  = sum_i phi_f(x_i) y'_i                     S' from (k, v'), dS' from (q, G')
//   outputs of tokens      y'_i  = sum_f phi_f(x_i) S'_f                     O' from (q, S'), dV' from (k, dS')
//   gradient of tokens     dx_i  = sum_f dU_fi Omega_f                       dQ from (q, G', S'), dK from (k, v', dS')
//   gradient of Omega      dOmega_f = sum_i dU_fi x_i,  dU_fi = phi'_f(x_i) S'_f . y'_i
//
// where y' = (y, last): v' = (v, 1), and G' is that of engine/cuda/attention/kernel/parts.h. Factors are rounded to
// bf16. Sums, exponentials, `last` and z, the last column of S', are f32; z and denominators use the same rounded
// features as the rest, so that rounding errors cancel in the quotient. The eps and the constant of a map are not part
// of phi here: they are added to the sums (attention_bf16.cu).
#pragma once

#include "engine/cuda/attention/kernel/feature_rows.h"
#include "engine/cuda/parts/packed.h"
#include "engine/cuda/parts/warp_matrix.h"

namespace bochner::cuda {

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

/// body(part) for each part of a map's features, as a compile-time constant.
template <int parts, class Body>
BOCHNER_DEVICE void each_part(const Body& body) {
  body(std::integral_constant<int, 0>{});
  if constexpr (parts == 2) body(std::integral_constant<int, 1>{});
}

/// Packed frequencies. Rows beyond the last repeat earlier ones, so that no exponent exceeds those of real rows; their
/// sums are 0.
struct PackedFrequencies {
  int64_t heads;          ///< of the tokens
  int64_t count, padded;  ///< M, and M padded to whole tiles
  bool shared;            ///< one Omega for all heads
  const bfloat16* rows;   ///< (1 or heads, padded, D)

  BOCHNER_DEVICE int64_t place(int64_t job) const { return shared ? 0 : job % heads * padded; }
};

/// S' or dS', packed: (jobs, parts, padded frequencies, ...).
struct PackedSums {
  const bfloat16* rows;  ///< without z
  const float* z;
  const float* base;  ///< (jobs, D + 1): added to each output, or null
};

/// Outputs, or gradients of tokens.
struct OutputTokens {
  StoredTokens to;
  bool whole;  ///< bf16, each row aligned to 16 bytes
};

/// Frequencies and their sums, 64 at a time through two buffers in shared memory: one is read while the other is being
/// loaded.
template <int D, int parts, int threads>
struct FrequencyTiles {
  static constexpr int kStride = D + kGap;
  static constexpr int kElements = kTile * kStride;
  static constexpr size_t kBuffer = sizeof(bfloat16) * (1 + parts) * kElements + sizeof(float) * parts * kTile;
  static constexpr size_t kShared = 2 * kBuffer;

  int64_t padded;
  const bfloat16 *omega, *sums;  ///< rows of the job's head, and those of the job
  const float* z;
  unsigned char* memory;

  /// `index` is the index of the sums: a job, or a tile of a slab.
  BOCHNER_DEVICE FrequencyTiles(const PackedFrequencies& frequencies, const PackedSums& packed, int64_t job,
                                int64_t index, unsigned char* shared)
      : padded(frequencies.padded),
        omega(frequencies.rows + frequencies.place(job) * D),
        sums(packed.rows + index * parts * padded * D),
        z(packed.z + index * parts * padded),
        memory(shared) {}

  BOCHNER_DEVICE bfloat16* omega_at(int buffer) const { return reinterpret_cast<bfloat16*>(memory + buffer * kBuffer); }
  BOCHNER_DEVICE bfloat16* sums_at(int buffer, int part) const { return omega_at(buffer) + (1 + part) * kElements; }
  BOCHNER_DEVICE float* z_at(int buffer, int part) const {
    return reinterpret_cast<float*>(omega_at(buffer) + (1 + parts) * kElements) + part * kTile;
  }

  template <bool with_sums, class Team>
  BOCHNER_DEVICE void begin(const Team& team, int64_t m, int buffer) const {
    begin_tile<D, kTile, threads>(team, omega + m * D, D, omega_at(buffer), kStride);
    if constexpr (with_sums) {
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const int64_t from = part * padded + m;
        begin_tile<D, kTile, threads>(team, sums + from * D, D, sums_at(buffer, part), kStride);
        begin_numbers<kTile, threads>(team, z + from, z_at(buffer, part));
      }
    }
  }
  /// body(buffer, m) for each 64 frequencies, from number m on, in order.
  template <bool with_sums, class Team, class Body>
  BOCHNER_DEVICE void each(const Team& team, const Body& body) const {
    team.sync();
    begin<with_sums>(team, 0, 0);
    int buffer = 0;
    for (int64_t m = 0; m < padded; m += kTile, buffer = 1 - buffer) {
      wait_for_copies();
      team.sync();
      if (m + kTile < padded) begin<with_sums>(team, m + kTile, 1 - buffer);
      join_lanes();
      body(buffer, m);
    }
  }
};

/// Writes a warp's rows of sums: the rows from `first` on of (count, D + 1), z being the last column.
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

/// Writes the rows of a block of `warps`, where get(s, r) are those of a warp's r-th of R groups, to tokens first ...
/// of a head. `memory` has space for as many rows of D + kGap, and no thread reads it any more after a sync().
template <int D, int R, int warps, class Team, class Get>
BOCHNER_DEVICE void store(const Team& team, const OutputTokens& out, int64_t b, int64_t h, int64_t first,
                          int64_t length, bfloat16* memory, const Get& get) {
  constexpr int kShare = kWarpShare<warps>;
  constexpr int kStride = D + kGap;
  const StoredTokens::Head to = out.to.head(b, h);
  if (!out.whole) {
    for (int s = 0; s < kShare; ++s) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int64_t token = first + 16 * (R * warp_of(team, s) + r);
        get(s, r).each([&](int row, int column, float& value) {
          if (token + row < length) to.put(token + row, column, value);
        });
      }
    }
    return;
  }
  team.sync();
  for (int s = 0; s < kShare; ++s) {
#pragma unroll
    for (int r = 0; r < R; ++r) put_rows(get(s, r), memory + 16 * (R * warp_of(team, s) + r) * kStride, kStride);
  }
  team.sync();
  auto* data = static_cast<bfloat16*>(to.data) + to.begin + first * to.stride;
  const int64_t left = length - first;
  spread_tile<D, 16 * R * warps, 32 * warps>(team, [&](int row, int column) {
    if (row < left)
      *reinterpret_cast<Eight*>(data + row * to.stride + column) =
          *reinterpret_cast<const Eight*>(memory + row * kStride + column);
  });
}

}  // namespace bochner::cuda
