// The tiles of causal kernel attention in every build: one thread replaces a block, and memory has exactly the size
// that each kernel may use, so that the sanitizers check its indices.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/cuda/attention/causal_attention_passes.h"
#include "engine/cuda/attention/kernel_attention_passes.h"
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

/// The packed tokens of a side, as the kernels read them.
struct PackedSide {
  Rounded x, yt;
  Floats norms, less, weight, last, carry, tops;

  PackedSide(const Floats& tokens, const Floats& y, int64_t padded)
      : x(static_cast<size_t>(padded * kDim)),
        yt(static_cast<size_t>(padded * kDim)),
        norms(static_cast<size_t>(padded)),
        less(norms),
        weight(norms),
        last(norms),
        carry(norms),
        tops(norms) {
    for (int64_t i = 0; i < kTokens; ++i) {
      for (int64_t e = 0; e < kDim; ++e) {
        const auto from = static_cast<size_t>(i * kDim + e);
        x[from] = bfloat16(tokens[from]);
        yt[static_cast<size_t>(e * padded + i)] = bfloat16(y[from]);
      }
    }
  }
  TokenSide tokens(int64_t padded) const {
    return {kTokens, padded, x.data(), nullptr, nullptr, yt.data(), less.data(), weight.data(), last.data()};
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
  Rounded omega_rows(kTile * kDim), omega_columns(kTile * kDim);
  for (int64_t i = 0; i < kTile * kDim; ++i) {
    PackOmega{kFrequencies, kTile, kDim, Omega.data(), omega_rows.data(), omega_columns.data()}(i);
  }
  const PackedFrequencies omega{1, kFrequencies, kTile, true, omega_rows.data(), omega_columns.data()};

  PackedSide queries(q, v, padded), keys(k, v, padded);
  const KeyMask all{Tensor()};
  for (PackedSide* side : {&queries, &keys}) {
    for (int64_t i = 0; i < padded; ++i) {
      TokenNorms{kDim, rule.norm_factor, side->x.data(), side->norms.data()}(HostTeam(i, nullptr));
    }
    run_blocks(tiles, TokenTops<kDim, Form::positive>{omega, side->tokens(padded), side->tops.data()});
  }
  Floats largest(static_cast<size_t>(tiles)), r(static_cast<size_t>(tiles + 1)), m(static_cast<size_t>(padded));
  const TileTops exponents{1, kTokens, padded, true, all, keys.norms.data(), keys.tops.data(), largest.data()};
  for (int64_t i = 0; i < tiles; ++i) exponents(i);
  TopsBefore{tiles, largest.data(), r.data()}(0);
  for (int64_t i = 0; i < tiles; ++i) TopsSeen{exponents, r.data(), m.data()}(i);
  for (PackedSide* side : {&queries, &keys}) {
    const CausalScales scales{rule,
                              1,
                              kTokens,
                              padded,
                              side == &keys,
                              all,
                              side->norms.data(),
                              side->tops.data(),
                              m.data(),
                              r.data(),
                              side->less.data(),
                              side->weight.data(),
                              side->carry.data(),
                              side->last.data()};
    for (int64_t i = 0; i < padded; ++i) scales(i);
  }

  const Slab slab{0, tiles};
  const CausalSide own{queries.tokens(padded), queries.carry.data(), nullptr, 0};
  const CausalSide other{keys.tokens(padded), keys.carry.data(), nullptr, 0};
  constexpr int64_t kState = kFrequencies * (kDim + 1);
  Floats added(static_cast<size_t>(tiles * kState)), carried(static_cast<size_t>(kState), 0.0F);
  Floats z(static_cast<size_t>(tiles * kTile)), w(static_cast<size_t>(padded));
  Rounded columns(static_cast<size_t>(tiles * kTile * kDim)), A(static_cast<size_t>(tiles * kTile * kTile));
  run_blocks(tiles, TileSums<kDim, Form::positive>{{rule}, omega, other, slab, added.data()});
  const ScanTiles scan{kFrequencies,   kTile,   kDim, tiles, 1, slab,    false,          r.data(), added.data(),
                       carried.data(), nullptr, 1,    0,     0, nullptr, columns.data(), z.data()};
  for (int64_t i = 0; i < kTile * (kDim + 1); ++i) scan(i);
  run_blocks(tiles, TileWeights<kDim, Form::positive>{
                        {rule}, omega, own, other, slab, 0, 0, m.data(), false, A.data(), w.data()});
  const Tensor O = Tensor::zeros({1, 1, kTokens, kDim});
  Floats denominators(static_cast<size_t>(kTokens));
  run_blocks(tiles, CausalOutputs<kDim, Form::positive>{{rule},
                                                        omega,
                                                        own,
                                                        other,
                                                        slab,
                                                        {nullptr, columns.data(), z.data(), nullptr},
                                                        A.data(),
                                                        nullptr,
                                                        w.data(),
                                                        all,
                                                        0,
                                                        denominators.data(),
                                                        StoredTokens(O)});

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
