// Kernel attention on slices of sequences: each slice gets the same outputs and gradients for its tokens as the whole.
#include "engine/comm/sequence_slices.h"
#include "tests/engine/comm/in_threads.h"
#include "tests/engine/ops/attention/kernel_attention_oracle.h"

namespace bochner::testing_kernel_attention {
namespace {

/// The values of all slices side by side: O, dQ, dK, dV (B, H, L, D), and dOmega of each slice.
struct Found {
  Found(const Problem& p, int slices) : dOmega(static_cast<size_t>(slices)) {
    for (int i = 0; i < 4; ++i) of_tokens.push_back(Tensor::zeros(p.Q.shape(), p.Q.dtype()));
  }
  std::vector<Tensor> of_tokens;
  std::vector<Tensor> dOmega;
};

Found whole(const Problem& p) {
  const KernelAttentionResult forward = p.attend();
  const KernelAttentionGradients gradients = p.gradients(forward);
  Found found(p, 1);
  found.of_tokens = {forward.O, gradients.dQ, gradients.dK, gradients.dV};
  found.dOmega[0] = gradients.dOmega;
  return found;
}

/// The same from `count` slices in the given number of processes; also the most bytes that one of these sends.
Found sliced(const Problem& p, int count, int processes, std::vector<int64_t>* sent = nullptr) {
  Found found(p, count);
  if (sent != nullptr) sent->assign(static_cast<size_t>(processes), 0);
  test::in_threads(processes, [&](Communicator& comm) {
    const ShardTree tree(count, processes);
    SequenceSlices slices(comm, tree);
    const auto body = [&](SequenceSlice& slice) {
      const auto cut = [&](const Tensor& x) { return x.slice(2, slice.begin(), slice.end()); };
      Problem own{cut(p.Q), cut(p.K), cut(p.V), p.Omega, cut(p.dO), {}, p.spec};
      if (p.keys.defined()) own.keys = slice.cut(p.keys);
      own.spec.slice = &slice;
      const KernelAttentionResult forward = own.attend();
      const KernelAttentionGradients gradients = own.gradients(forward);
      const std::vector<Tensor> of_slice = {forward.O, gradients.dQ, gradients.dK, gradients.dV};
      for (size_t i = 0; i < of_slice.size(); ++i) cut(found.of_tokens[i]).copy_(of_slice[i]);
      found.dOmega[static_cast<size_t>(slice.number())] = gradients.dOmega;
    };
    slices.run(p.Q.size(2), body, {});
    if (sent != nullptr) (*sent)[static_cast<size_t>(comm.rank())] = comm.bytes_sent();
  });
  return found;
}

Values sum_of(const std::vector<Tensor>& all) {
  Values total = all.front().to_vector<double>();
  for (size_t k = 1; k < all.size(); ++k) {
    const Values one = all[k].to_vector<double>();
    for (size_t i = 0; i < total.size(); ++i) total[i] += one[i];
  }
  return total;
}

void expect_near(const Values& a, const Values& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << " " << i;
  }
}

const std::vector<std::string> kNames = {"O", "dQ", "dK", "dV"};

TEST(KernelAttentionSlices, EachHasTheGradientsOfItsTokensForEveryMap) {
  uint64_t seed = 500;
  for (const FeatureMap& map : maps()) {
    for (const bool causal : {false, true}) {
      for (const int count : {2, 3}) {
        ++seed;
        Problem p = problem({2, 2, 131, 131, 4, 4, seed % 3 == 0 ? 0 : 6}, {map, 1, causal, seed % 4 != 0, 1e-6},
                            DType::f64, seed);
        if (map.kind == Kind::softmax_trigonometric) p.spec.scale *= 0.3;
        if (map.kind == Kind::softmax_trigonometric && map.constant == 0) p.spec.denominator_eps = 400;
        if (seed % 2 == 0) p.keys = padding(2, 131, seed);
        SCOPED_TRACE(fmt::format("map {}, function {}, causal {}, {} slices", static_cast<int>(map.kind),
                                 static_cast<int>(map.function), causal, count));
        const Found expected = whole(p);
        const Found found = sliced(p, count, count);
        for (size_t i = 0; i < kNames.size(); ++i) {
          expect_near(found.of_tokens[i].to_vector<double>(), expected.of_tokens[i].to_vector<double>(), 1e-9,
                      kNames[i]);
        }
        if (p.Omega.defined())
          expect_near(sum_of(found.dOmega), expected.dOmega[0].to_vector<double>(), 1e-9, "dOmega");
      }
    }
  }
}

/// Lengths that are odd, or shorter than the number of slices; more slices than heads; padding, including whole slices.
TEST(KernelAttentionSlices, AreTheSameBitsInAnyNumberOfProcesses) {
  uint64_t seed = 900;
  for (const int64_t length : {1, 3, 131, 300}) {
    for (const bool causal : {false, true}) {
      for (const int count : {2, 5}) {
        ++seed;
        Problem p =
            problem({2, 2, length, length, 4, 4, 6}, {{.kind = Kind::positive}, 1, causal, true, 0}, DType::f32, seed);
        p.keys = padding(2, length, seed);
        if (length > 100) p.keys.slice(1, length / 3, length).fill_(0);
        const Found expected = sliced(p, count, 1);
        for (int processes = 2; processes <= count; ++processes) {
          const Found found = sliced(p, count, processes);
          for (size_t i = 0; i < kNames.size(); ++i) {
            EXPECT_EQ(found.of_tokens[i].to_vector<float>(), expected.of_tokens[i].to_vector<float>())
                << kNames[i] << " of " << length << " tokens in " << processes;
          }
          for (size_t k = 0; k < found.dOmega.size(); ++k) {
            EXPECT_EQ(found.dOmega[k].to_vector<float>(), expected.dOmega[k].to_vector<float>()) << k;
          }
        }
        const Found one = whole(p);
        for (size_t i = 0; i < kNames.size(); ++i) {
          expect_near(expected.of_tokens[i].to_vector<double>(), one.of_tokens[i].to_vector<double>(), 1e-4, kNames[i]);
        }
      }
    }
  }
}

/// The causal form ends a chunk at every 1024th token, so a slice may end there too.
TEST(KernelAttentionSlices, CausalOnesOfWholeSegmentsAreTheBitsOfTheWhole) {
  for (const Kind kind : {Kind::positive, Kind::trigonometric}) {
    Problem p = problem({1, 3, 4096, 4096, 8, 8, 16}, {{.kind = kind}, 1, true, true, 1e-6}, DType::f32, 77);
    const Found expected = whole(p);
    for (const int count : {2, 4}) {
      const Found found = sliced(p, count, 2);
      for (size_t i = 0; i < kNames.size(); ++i) {
        EXPECT_EQ(found.of_tokens[i].to_vector<float>(), expected.of_tokens[i].to_vector<float>()) << kNames[i];
      }
    }
  }
}

TEST(KernelAttentionSlices, WhatTheySendDoesNotGrowWithTheLength) {
  for (const bool causal : {false, true}) {
    std::vector<std::vector<int64_t>> sent;
    for (const int64_t length : {100, 1000}) {
      const Problem p =
          problem({1, 4, length, length, 8, 8, 16}, {{.kind = Kind::positive}, 1, causal, true, 0}, DType::f32, 5);
      sliced(p, 2, 2, &sent.emplace_back());
    }
    EXPECT_EQ(sent[0], sent[1]);
    // S and z, and on the way back their gradients; besides these, exponents, sums of values, and counts.
    const int64_t states = 2 * int64_t{4} * 4 * 16 * (8 + 1);
    EXPECT_GE(sent[0][0] + sent[0][1], states);
    EXPECT_LE(sent[0][0] + sent[0][1], (causal ? 1.2 : 2.1) * static_cast<double>(states));
  }
}

TEST(KernelAttentionSlices, RefusesOtherKeys) {
  test::in_threads(2, [](Communicator& comm) {
    const ShardTree tree(2, 2);
    SequenceSlices slices(comm, tree);
    const auto body = [](SequenceSlice& slice) {
      Problem p = problem({1, 1, 6, 7, 4, 4, 6}, {{.kind = Kind::positive}, 1, false, true, 0}, DType::f32, 5);
      p.spec.slice = &slice;
      try {
        p.attend();
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("queries and keys of the same tokens"), std::string::npos);
      }
    };
    slices.run(12, body, {});
  });
}

}  // namespace
}  // namespace bochner::testing_kernel_attention
