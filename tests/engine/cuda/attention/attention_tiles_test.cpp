// The tiles of causal kernel attention in every build: one thread replaces a block, and memory has exactly the size
// that each kernel may use, so that the sanitizers check its indices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/cuda/attention/kernel/causal_passes.h"
#include "engine/cuda/attention/kernel/causal_states.h"
#include "engine/cuda/attention/kernel/passes.h"
#include "engine/random.h"

namespace bochner::cuda {
namespace {

constexpr int kDim = 32;
constexpr int64_t kTokens = 100;      // two tiles, the second one not full
constexpr int64_t kFrequencies = 40;  // one tile, not full

using Floats = std::vector<float>;
using Rounded = std::vector<bfloat16>;

template <class Kernel>
void run_blocks(int64_t count, const Kernel& kernel) {
  for (int64_t i = 0; i < count; ++i) {
    std::vector<uint64_t> memory((Kernel::kShared + 7) / 8, ~uint64_t{0});
    kernel(HostTeam(i, memory.data()));
  }
}

Floats values(uint64_t seed, int64_t count, double deviation) {
  Generator generator(seed);
  return normal({count}, generator, 0, deviation, DType::f32).to_vector<float>();
}

/// Rows of a head in whole tiles, rounded.
Tensor packed(const Floats& x, int64_t padded) {
  Floats all(static_cast<size_t>(padded * kDim));
  std::copy(x.begin(), x.end(), all.begin());
  return Tensor::from<float>(all, {1, 1, padded, kDim}).cast(DType::bf16);
}

/// The tokens of a side, as the kernels read them.
struct PackedSide {
  Tensor x, y;
  Floats norms, less, weight, last, carry;

  PackedSide(const Floats& tokens, const Floats& values, int64_t padded)
      : x(packed(tokens, padded)),
        y(packed(values, padded)),
        norms(static_cast<size_t>(padded)),
        less(norms),
        weight(norms),
        last(norms),
        carry(norms) {}
  TokenSide tokens(int64_t padded) const {
    return {kTokens,       padded,     {1, Tokens<const bfloat16>(x)}, {1, Tokens<const bfloat16>(y)}, less.data(),
            weight.data(), last.data()};
  }
};

TEST(AttentionTiles, CausalOutputsAreWeightedMeansOfEarlierValues) {
  KernelAttentionSpec spec;
  spec.causal = true;
  spec.map.eps = 0;
  const FeatureRule<float> rule(spec, kFrequencies);
  const int64_t padded = padded_length(kTokens);
  const int64_t tiles = padded / kTile;
  const Floats q = values(1, kTokens * kDim, 0.4), k = values(2, kTokens * kDim, 0.4), v = values(3, kTokens * kDim, 1);
  const Floats Omega = values(4, kFrequencies * kDim, 1);
  Rounded omega_rows(kTile * kDim);
  for (int64_t i = 0; i < kTile * kDim; ++i) {
    PackOmega{kFrequencies, kTile, kDim, Omega.data(), omega_rows.data()}(i);
  }
  const PackedFrequencies omega{1, kFrequencies, kTile, true, omega_rows.data()};

  PackedSide queries(q, v, padded), keys(k, v, padded);
  const KeyMask all{Tensor()};
  Floats tops(static_cast<size_t>(padded)), exponents(tops), m(tops), factor(tops);
  Floats largest(static_cast<size_t>(tiles)), r(static_cast<size_t>(tiles + 1));
  run_blocks(tiles, TokenExponents<kDim, Form::positive>{omega, queries.tokens(padded), keys.tokens(padded), all, 1,
                                                         rule.norm_factor, true, queries.norms.data(), tops.data(),
                                                         keys.norms.data(), exponents.data(), largest.data()});
  const auto numbers = [](PackedSide& side) {
    return SideNumbers{side.norms.data(), side.less.data(), side.weight.data(), side.carry.data(), side.last.data()};
  };
  run_blocks(tiles, CausalShifts{rule, 1, padded, kTokens, kTokens, all, tops.data(), exponents.data(), largest.data(),
                                 numbers(queries), numbers(keys), nullptr, m.data(), r.data(), factor.data()});

  const Slab slab{0, tiles};
  const CausalSide own{queries.tokens(padded), queries.carry.data(), nullptr, 0};
  const CausalSide other{keys.tokens(padded), keys.carry.data(), nullptr, 0};
  Floats z(static_cast<size_t>(tiles * kTile));
  Rounded sums(static_cast<size_t>(tiles * kTile * kDim));
  const Walk way{slab, false, 2, ceil_div(tiles, int64_t{2}), 1, tiles, r.data()};
  constexpr int64_t kSize = kFrequencies * (kDim + 1);
  Floats starts(static_cast<size_t>(way.segments * kSize));
  WalkStates<kDim, Form::positive> walk{
      {rule}, omega, other, way,         true,     kSize,   {starts.data(), way.segments * kSize, kSize},
      {},     {},    1,     sums.data(), z.data(), nullptr, nullptr};
  run_blocks((way.segments - 1) * walk.blocks(), walk);
  const ScanSegments scan{way, kSize, 0, kSize, {}, walk.starts};
  for (int64_t i = 0; i < kSize; ++i) scan(i);
  walk.sums = false;
  run_blocks(way.segments * walk.blocks(), walk);
  const Tensor O = Tensor::zeros({1, 1, kTokens, kDim});
  Floats denominators(static_cast<size_t>(kTokens));
  run_blocks(tiles, CausalOutputs<kDim, Form::positive>{{rule},
                                                        omega,
                                                        own,
                                                        other,
                                                        slab,
                                                        {sums.data(), z.data(), nullptr},
                                                        m.data(),
                                                        nullptr,
                                                        0,
                                                        0,
                                                        denominators.data(),
                                                        {StoredTokens(O), false}});

  // phi(q_i) . phi(k_j) in f64, up to factors that cancel
  const auto feature = [&](const Floats& x, int64_t i, int64_t f) {
    double u = 0;
    double squares = 0;
    for (int64_t e = 0; e < kDim; ++e) {
      const double value = x[static_cast<size_t>(i * kDim + e)];
      u += value * Omega[static_cast<size_t>(f * kDim + e)];
      squares += value * value;
    }
    return std::exp(u - squares / 2);
  };
  const std::vector<double> found = O.to_vector<double>();
  double error = 0;
  double size = 0;
  for (int64_t i = 0; i < kTokens; ++i) {
    std::vector<double> sum(kDim, 0.0);
    double total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double weight = 0;
      for (int64_t f = 0; f < kFrequencies; ++f) weight += feature(q, i, f) * feature(k, j, f);
      total += weight;
      for (size_t e = 0; e < kDim; ++e) sum[e] += weight * v[static_cast<size_t>(j * kDim) + e];
    }
    for (size_t e = 0; e < kDim; ++e) {
      const double difference = found[static_cast<size_t>(i * kDim) + e] - sum[e] / total;
      error += difference * difference;
      size += sum[e] / total * (sum[e] / total);
    }
  }
  EXPECT_LE(error, 1e-4 * size);
}

}  // namespace
}  // namespace bochner::cuda
