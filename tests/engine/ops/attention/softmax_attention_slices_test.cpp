// Softmax attention on slices of sequences: each slice gets the same outputs and gradients for its tokens as the whole.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/comm/sequence_slices.h"
#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/binary.h"
#include "tests/engine/comm/in_threads.h"
#include "tests/engine/ops/oracle.h"
#include "tests/engine/ops/padding.h"

namespace bochner {
namespace {

struct SlicedProblem {
  Tensor Q, K, V, dO, mask;  ///< mask undefined: all keys are real
  SoftmaxAttentionOptions options;
};

SlicedProblem problem(int64_t b, int64_t h, int64_t length, int64_t d, int64_t e, DType dtype, uint64_t seed) {
  Generator generator(seed);
  const auto values = [&](int64_t size) {
    return normal({b, h, length, size}, generator, 0, 1, dtype == DType::f64 ? DType::f64 : DType::f32).cast(dtype);
  };
  SlicedProblem p{values(d), values(d), values(e), values(e), {}, {}};
  p.options.scale = 1 / std::sqrt(static_cast<double>(d));
  return p;
}

/// O, logsumexp, dQ, dK, dV of all tokens.
using Found = std::vector<Tensor>;
const std::vector<std::string> kNames = {"O", "logsumexp", "dQ", "dK", "dV"};

Found whole(const SlicedProblem& p) {
  const SoftmaxAttended attended = softmax_attention(p.Q, p.K, p.V, p.mask, p.options);
  const AttentionGradients grads = softmax_attention_backward(p.dO, p.Q, p.K, p.V, p.mask, attended, p.options);
  return {attended.O, attended.logsumexp, grads.dQ, grads.dK, grads.dV};
}

/// The part of a slice. Dropout is drawn separately for each slice.
SlicedProblem part_of(const SlicedProblem& p, SequenceSlice& slice) {
  const auto cut = [&](const Tensor& x) { return x.slice(2, slice.begin(), slice.end()); };
  SlicedProblem own{cut(p.Q), cut(p.K), cut(p.V), cut(p.dO), {}, p.options};
  if (p.mask.defined()) own.mask = slice.cut(p.mask);
  own.options.slice = &slice;
  own.options.dropout.place = Generator(static_cast<uint64_t>(slice.number()), 12);
  return own;
}

/// The same from `count` slices in the given number of processes, and what each of these sends.
Found sliced(const SlicedProblem& p, int count, int processes, std::vector<int64_t>* sent = nullptr) {
  const Shape tokens{p.Q.size(0), p.Q.size(1), p.Q.size(2)};
  Found found{Tensor::zeros(p.V.shape(), p.V.dtype()),
              {},
              Tensor::zeros(p.Q.shape(), p.Q.dtype()),
              Tensor::zeros(p.K.shape(), p.K.dtype()),
              Tensor::zeros(p.V.shape(), p.V.dtype())};
  found[1] = Tensor::zeros(tokens, p.Q.dtype() == DType::f64 ? DType::f64 : DType::f32);
  if (sent != nullptr) sent->assign(static_cast<size_t>(processes), 0);
  test::in_threads(processes, [&](Communicator& comm) {
    const ShardTree tree(count, processes);
    SequenceSlices slices(comm, tree);
    const auto body = [&](SequenceSlice& slice) {
      const Found own = whole(part_of(p, slice));
      for (size_t i = 0; i < own.size(); ++i) found[i].slice(2, slice.begin(), slice.end()).copy_(own[i]);
    };
    slices.run(p.Q.size(2), body, {});
    if (sent != nullptr) (*sent)[static_cast<size_t>(comm.rank())] = comm.bytes_sent();
  });
  return found;
}

void expect_near(const Found& found, const Found& expected, double tolerance) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    const auto a = found[i].to_vector<double>();
    const auto b = expected[i].to_vector<double>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t n = 0; n < a.size(); ++n) {
      if (a[n] == b[n]) continue;  // also -inf
      ASSERT_NEAR(a[n], b[n], tolerance * std::max(1.0, std::abs(b[n]))) << kNames[i] << " " << n;
    }
  }
}

void expect_bits(const Found& found, const Found& expected, size_t outputs = kNames.size()) {
  for (size_t i = 0; i < outputs; ++i) {
    EXPECT_EQ(found[i].to_vector<double>(), expected[i].to_vector<double>()) << kNames[i];
  }
}

/// Padding of every kind, including whole slices.
Tensor mask_of(int64_t length, uint64_t seed) {
  const Tensor mask = padding(2, length, seed);
  if (seed % 2 == 0) mask.slice(1, length / 4, 3 * length / 4 + 1).fill_(0);
  return mask;
}

TEST(SoftmaxAttentionSlices, EachHasTheGradientsOfItsTokens) {
  uint64_t seed = 0;
  for (const int64_t length : {1, 3, 64, 131, 300}) {
    for (const int count : {1, 2, 3, 4}) {
      for (const bool causal : {false, true}) {
        const DType dtype = std::array{DType::f64, DType::f32, DType::bf16}[++seed % 3];
        SlicedProblem p = problem(2, 2, length, 8, seed % 5 == 0 ? 11 : 8, dtype, seed);
        p.options.causal = causal;
        if (seed % 4 > 0) p.mask = mask_of(length, seed);
        SCOPED_TRACE(fmt::format("{} tokens, {} slices, causal {}, mask {}, {}", length, count, causal,
                                 p.mask.defined(), name_of(dtype)));
        const double tolerance = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : 0.03;
        expect_near(sliced(p, count, (count + 1) / 2), whole(p), tolerance);
      }
    }
  }
}

/// Lengths that are odd, or shorter than the number of slices; views of a joint projection; dropout.
TEST(SoftmaxAttentionSlices, AreTheSameBitsInAnyNumberOfProcesses) {
  uint64_t seed = 40;
  for (const int64_t length : {1, 131}) {
    for (const bool causal : {false, true}) {
      for (const int count : {2, 5, 8}) {
        ++seed;
        SlicedProblem p = problem(2, 2, length, 8, 8, seed % 3 == 0 ? DType::bf16 : DType::f32, seed);
        p.K = p.K.transpose(1, 2).contiguous().transpose(1, 2);
        p.options.causal = causal;
        if (seed % 2 == 0) p.mask = mask_of(length, seed / 2);
        if (seed % 4 < 2) p.options.dropout = Dropout::at(0.2, Generator(1));
        const Found expected = sliced(p, count, 1);
        for (const int processes : {2, 3, 8}) {
          if (processes > count) continue;
          SCOPED_TRACE(fmt::format("{} tokens, {} slices, {} processes", length, count, processes));
          expect_bits(sliced(p, count, processes), expected);
        }
      }
    }
  }
}

/// Keys are processed 64 at a time, so a slice may begin at a multiple of 64.
TEST(SoftmaxAttentionSlices, OfWholeTilesHaveTheOutputsOfTheWholeBitForBit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool causal : {false, true}) {
      SlicedProblem p = problem(1, 3, 512, 16, 16, dtype, 7);
      p.options.causal = causal;
      for (const int64_t real : {512, 300}) {
        p.mask = Tensor::full({1, 512}, 1, DType::boolean);
        p.mask.slice(1, real, 512).fill_(0);
        const Found expected = whole(p);
        for (const int count : {2, 8}) {
          const Found found = sliced(p, count, 2);
          expect_bits(found, expected, 3);  // O, logsumexp, dQ
          expect_near(found, expected, dtype == DType::f32 ? 2e-5 : 0.02);
        }
      }
    }
  }
}

TEST(SoftmaxAttentionSlices, DropByThemselves) {
  SlicedProblem p = problem(2, 2, 131, 8, 8, DType::f64, 3);
  p.options.dropout = Dropout::at(0.3, Generator(1));
  p.mask = padding(2, 131, 4);
  const Found found = sliced(p, 3, 2);
  Found expected = sliced(p, 3, 1);
  expected[3].fill_(0);
  expected[4].fill_(0);
  const ShardTree tree(3, 1);
  SequenceSlices slices(alone(), tree);
  const auto body = [&](SequenceSlice& slice) {  // some queries, and all keys
    SlicedProblem own = part_of(p, slice);
    own.K = p.K;
    own.V = p.V;
    own.mask = p.mask;
    own.options.slice = nullptr;
    const Found of_queries = whole(own);
    for (size_t i = 0; i < 3; ++i) expected[i].slice(2, slice.begin(), slice.end()).copy_(of_queries[i]);
    for (size_t i = 3; i < 5; ++i) add_(expected[i], of_queries[i]);
  };
  slices.run(131, body, {});
  expect_near(found, expected, 1e-12);
}

TEST(SoftmaxAttentionSlices, GradientsAgreeWithCentralDifferences) {
  SlicedProblem p = problem(1, 2, 70, 5, 3, DType::f64, 9);
  p.mask = padding(1, 70, 5);
  p.options.dropout = Dropout::at(0.2, Generator(5));
  p.options.causal = true;
  const Found grads = sliced(p, 3, 2);
  const auto loss = [&] { return oracle::dot(sliced(p, 3, 1)[0], p.dO); };
  for (const auto& [x, dx] : {std::pair{p.Q, grads[2]}, {p.K, grads[3]}, {p.V, grads[4]}})
    oracle::expect_gradient(dx, loss, x, 101);
}

/// The keys and values of each slice go to every other process that sees them; in backward again, together with
/// gradients.
TEST(SoftmaxAttentionSlices, SendKeysAndValuesThreeTimes) {
  const int64_t length = 300;
  const int64_t slice = 2 * 4 * length / 3 * (8 + 8);  // K and V of one of 3, f32
  const auto total = [&](bool causal, int processes) {
    SlicedProblem p = problem(1, 2, length, 8, 8, DType::f32, 5);
    p.options.causal = causal;
    std::vector<int64_t> sent;
    sliced(p, 3, processes, &sent);
    int64_t sum = 0;
    for (const int64_t one : sent) sum += one;
    return sum;
  };
  const auto counts = [](int processes) { return 2 * (processes - 1) * 2 * 3 * int64_t{8}; };  // of keys, by ShardTree
  EXPECT_EQ(total(false, 1), 0);
  EXPECT_EQ(total(false, 3), 3 * 3 * 2 * slice + counts(3));
  EXPECT_EQ(total(true, 3), 3 * (2 + 1) * slice + counts(3));
  EXPECT_EQ(total(true, 2), 3 * slice + counts(2));  // only slice 0
}

TEST(SoftmaxAttentionSlices, RefusesOtherKeys) {
  const ShardTree tree(2, 1);
  SequenceSlices slices(alone(), tree);
  const auto body = [](SequenceSlice& slice) {
    SlicedProblem p = problem(1, 1, 6, 4, 4, DType::f32, 5);
    p.options.slice = &slice;
    try {
      softmax_attention(p.Q, p.K.slice(2, 0, 5), p.V.slice(2, 0, 5), {}, p.options);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("queries and keys of the same tokens"), std::string::npos);
    }
  };
  slices.run(12, body, {});
}

}  // namespace
}  // namespace bochner
