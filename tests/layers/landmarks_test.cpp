// Landmarks computed by tensor ops, compared with plain loops over tokens.
#include "layers/attention/landmarks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/scan.h"
#include "tests/card.h"

namespace bochner {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

/// Real tokens of some examples: all, none, one at either end, a beginning, an end, and any.
std::vector<bool> mask_of(int64_t examples, int64_t length, uint64_t seed) {
  Generator coins(seed);
  std::vector<bool> real;
  for (int64_t b = 0; b < examples; ++b) {
    for (int64_t i = 0; i < length; ++i) {
      const bool kinds[] = {true, false, i == 0, i == length - 1, i<length / 3, i> length / 2, coins.below(2) == 0};
      real.push_back(kinds[(b + static_cast<int64_t>(seed)) % 7]);
    }
  }
  return real;
}

/// The positions of the real tokens of each example.
Rows positions(const std::vector<bool>& real, int64_t examples, int64_t length) {
  Rows rows(static_cast<size_t>(examples));
  for (int64_t b = 0; b < examples; ++b) {
    for (int64_t i = 0; i < length; ++i) {
      if (real[static_cast<size_t>(b * length + i)]) rows[static_cast<size_t>(b)].push_back(i);
    }
  }
  return rows;
}

size_t at(double place, size_t count) {
  return static_cast<size_t>(std::max(0.0, std::ceil(place * static_cast<double>(count)) - 1));
}

/// SKY Definition 1, example by example.
std::vector<int64_t> drawn(const std::vector<double>& u, const Rows& of_queries, const Rows& of_keys, int64_t Lq,
                           bool released) {
  std::vector<int64_t> rows;
  for (size_t b = 0; b < of_queries.size(); ++b) {
    const auto& queries = of_queries[b];
    const auto& keys = of_keys[b];
    for (size_t m = 0; m < u.size(); ++m) {
      const size_t i = at(u[m], queries.size() + keys.size());
      if (released) {
        rows.push_back(m < u.size() / 2 ? static_cast<int64_t>(at(u[m], queries.size()))
                                        : Lq + static_cast<int64_t>(at(u[m], keys.size())));
      } else if (i < queries.size()) {
        rows.push_back(queries[i]);
      } else {
        rows.push_back(keys.empty() ? 0 : Lq + keys[i - queries.size()]);
      }
    }
  }
  return rows;
}

void expect_drawn_landmarks(Device device) {
  constexpr int64_t kExamples = 9;
  for (const int64_t M : {1, 2, 7, 128}) {
    for (const auto& [Lq, Lk] : {std::pair<int64_t, int64_t>{1, 1}, {7, 7}, {40, 40}, {13, 5}, {3000, 2999}}) {
      for (const uint64_t seed : {1, 2, 3}) {
        const auto queries = mask_of(kExamples, Lq, seed);
        const auto keys = mask_of(kExamples, Lk, Lq == Lk ? seed : seed + 3);
        Generator before(seed, 8);
        const auto u = uniform({M}, before, 0, 1, DType::f64).to_vector<double>();
        for (const bool released : {false, true}) {
          Generator generator(seed, 8);
          const auto draw = released ? drawn_landmarks_as_released : drawn_landmarks;
          const Tensor found = draw(M, Tensor::from(queries, {kExamples, Lq}, device),
                                    Tensor::from(keys, {kExamples, Lk}, device), generator);
          EXPECT_EQ(found.shape(), (Shape{kExamples, 1, M, 1}));
          EXPECT_EQ(found.to_vector<int64_t>(),
                    drawn(u, positions(queries, kExamples, Lq), positions(keys, kExamples, Lk), Lq, released))
              << M << " of " << Lq << " and " << Lk << ", seed " << seed << (released ? ", released" : "");
          EXPECT_EQ(generator, before);
        }
      }
    }
  }
}

TEST(Landmarks, AreDrawnAmongRealTokens) { expect_drawn_landmarks(Device::cpu()); }

TEST(LandmarksOnACard, AreDrawnAmongRealTokens) {
  BOCHNER_NEEDS_CARD();
  expect_drawn_landmarks(Device::cuda());
}

/// Landmarks that are means of the tokens m n / c to (m + 1) n / c of each example.
void expect_means_of_segments(Device device) {
  constexpr int64_t kExamples = 9;
  constexpr int64_t kHeads = 2;
  constexpr int64_t kDim = 3;
  for (const int64_t M : {1, 2, 7, 128}) {
    for (const int64_t length : {1, 7, 40, 301}) {
      const auto real = mask_of(kExamples, length, 1);
      const Rows tokens = positions(real, kExamples, length);
      Generator generator(5);
      const Tensor x = normal({kExamples, kHeads, length, kDim}, generator, 0, 1, DType::f64);
      std::vector<int64_t> counts;
      for (size_t b = 0; b < tokens.size(); ++b) {  // in places fewer than there might be: the other side is shorter
        const auto n = static_cast<int64_t>(tokens[b].size());
        counts.push_back(std::min(M, b % 3 == 2 ? n / 2 : n));
      }
      std::vector<double> means(static_cast<size_t>(kExamples * kHeads * M * kDim));
      std::vector<bool> full;
      for (int64_t b = 0; b < kExamples; ++b) {
        const auto& places = tokens[static_cast<size_t>(b)];
        const auto n = static_cast<int64_t>(places.size());
        const int64_t c = counts[static_cast<size_t>(b)];
        for (int64_t m = 0; m < M; ++m) full.push_back(m < c);
        for (int64_t m = 0; m < c; ++m) {
          const int64_t begin = m * n / c;
          const int64_t end = (m + 1) * n / c;
          for (int64_t h = 0; h < kHeads; ++h) {
            for (int64_t d = 0; d < kDim; ++d) {
              double sum = 0;
              for (int64_t i = begin; i < end; ++i) {
                sum += x.data<double>()[((b * kHeads + h) * length + places[static_cast<size_t>(i)]) * kDim + d];
              }
              means[static_cast<size_t>(((b * kHeads + h) * M + m) * kDim + d)] =
                  sum / static_cast<double>(end - begin);
            }
          }
        }
      }
      const Tensor mask = Tensor::from(real, {kExamples, length}, device);
      const Tensor n = sum(mask.cast(DType::i64), {1}, true);
      const Segments found =
          segments(M, cumsum(mask.cast(DType::i64), 1), n, Tensor::from(counts, {kExamples, 1}, device));
      EXPECT_EQ(found.full.cast(DType::i64).to_vector<int64_t>(), std::vector<int64_t>(full.begin(), full.end()));
      const Tensor real_x = x.to(device) * mask.view({kExamples, 1, length, 1}).cast(DType::f64);
      const auto of_op = found.means(Variable(real_x)).value().to_vector<double>();
      ASSERT_EQ(of_op.size(), means.size());
      for (size_t i = 0; i < means.size(); ++i) ASSERT_NEAR(of_op[i], means[i], 1e-12) << M << " of " << length;
    }
  }
}

TEST(Landmarks, AreMeansOfSegments) { expect_means_of_segments(Device::cpu()); }

TEST(LandmarksOnACard, AreMeansOfSegments) {
  BOCHNER_NEEDS_CARD();
  expect_means_of_segments(Device::cuda());
}

}  // namespace
}  // namespace bochner
