// What mechanisms do differently as released, where that is the paper's mechanism on other inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/random.h"
#include "layers/attention/multi_head.h"
#include "layers/spectral/mixture.h"

namespace bochner {
namespace {

constexpr int64_t kDim = 8;
const Shape kShape{2, 2, 12, kDim};

Tensor values(uint64_t seed) {
  Generator generator(seed);
  return normal(kShape, generator, 0, 1, DType::f64);
}

std::unique_ptr<Mechanism> made(const MechanismOptions& options) {
  Generator init(4);
  auto mechanism = make_mechanism({}, 2, kDim, options, init);
  mechanism->to(Device::cpu(), DType::f64);
  return mechanism;
}

std::vector<double> output(Mechanism& mechanism, double scale, const Tensor& keys) {
  Generator noise(5);
  Context context{noise, true};
  return mechanism.forward(values(1) * scale, values(2) * scale, values(3), {keys, false}, context)
      .value()
      .to_vector<double>();
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// The arena's code draws no features and ignores masks.
TEST(Released, PerformerIsThatOfReluWithoutFrequenciesAndCountsPaddedKeys) {
  const Tensor keys = less(Tensor::arange(12).unsqueeze(0), Tensor::from<int64_t>({12, 7}, {2, 1}));
  const auto released = made({"performer", {{"as", "released"}}});
  const auto relu = made({"performer-relu", {{"as", "released"}}});
  EXPECT_TRUE(released->state().empty());
  EXPECT_EQ(output(*released, 1, keys), output(*relu, 1, {}));
  EXPECT_GT(apart(output(*released, 1, keys), output(*relu, 1, keys)), 1e-3);
}

TEST(Released, SkyformersPerformerScalesTwiceAndDrawsOnce) {
  const auto released = made({"performer", {{"features", 16}, {"redraw", 1}, {"as", "skyformer"}}});
  const auto paper = made({"performer", {{"features", 16}, {"redraw", 0}, {"eps", 1e-4}}});
  const std::vector<double> found = output(*released, 1, {});
  EXPECT_LT(apart(found, output(*paper, std::pow(kDim, -0.25), {})), 1e-12);
  EXPECT_GT(apart(found, output(*paper, 1, {})), 1e-3);
  output(*released, 1, {});
  EXPECT_EQ(found, output(*released, 1, {}));  // the same frequencies in every training step
}

TEST(Released, SmoothingAddsItsSquareToTheKernelOfRandomKitchenSinks) {
  const auto smoothed = [](double s) {
    return output(*made({"gmm-rks", {{"features", 16}, {"as", "released"}, {"smoothing", s}}}), 1, {});
  };
  const auto by_default = output(*made({"gmm-rks", {{"features", 16}, {"as", "released"}}}), 1, {});
  EXPECT_EQ(by_default, smoothed(1));
  EXPECT_GT(apart(by_default, smoothed(0.36)), 1e-3);
  const std::vector<double> means = mean(values(3), {-2}, true).expand(kShape).contiguous().to_vector<double>();
  EXPECT_LT(apart(smoothed(1e4), means), 1e-6);  // all weights are nearly equal
}

/// sum_j k(q_i, k_j) for each query, k being the mean of cos omega (q - k) / D^(1/4) over the draws, plus s^2.
std::vector<double> sums_of_sinks(Mechanism& mechanism, double draws, double s) {
  const Tensor Omega = mechanism.frequencies();  // (1 or heads, M, D)
  const Tensor Q = values(1);
  const Tensor K = values(2);
  std::vector<double> sums;
  for (int64_t b = 0; b < kShape[0]; ++b) {
    for (int64_t h = 0; h < kShape[1]; ++h) {
      const Tensor omega = Omega.select(0, Omega.size(0) == 1 ? 0 : h);
      const Tensor k = K.select(0, b).select(0, h);
      for (int64_t i = 0; i < kShape[2]; ++i) {
        const Tensor x = (Q.select(0, b).select(0, h).slice(0, i, i + 1) - k) * std::pow(kDim, -0.25);
        const Tensor angles = sum(x.unsqueeze(1) * omega.unsqueeze(0), {-1});  // (keys, M)
        sums.push_back(sum(cos(angles)).item() / draws + static_cast<double>(kShape[2]) * s * s);
      }
    }
  }
  return sums;
}

// KL's code has features over sqrt(draws), and s in addition; to the sums of weights it adds 1e-6.
TEST(Released, KitchenSinksAreMeansOverTheDrawsAndTheSquareOfSmoothing) {
  struct Sinks {
    const char* name;
    double draws, smoothing;
  };
  for (const auto& [name, draws, s] : {Sinks{"gmm-rks", 8, 1},
                                       {"gmm-rks", 8, 0.36},
                                       {"gmm-rks", 8, 0},
                                       {"fastfood-rks", 16, 1},
                                       {"generative-rks", 16, 1}}) {
    SCOPED_TRACE(fmt::format("{}, {}", name, s));
    const auto of_ones = [&, name = name, s = s](bool renormalise) {
      Settings settings = {{"features", 16}, {"as", "released"}, {"redraw", 0}, {"renormalise", renormalise}};
      if (s != 1) settings.emplace_back("smoothing", s);
      return made({name, settings});
    };
    const auto plain = of_ones(false);
    Generator noise(5);
    Context context{noise, false};
    const auto first_column = [&](Mechanism& mechanism) {
      const Tensor ones = Tensor::full(kShape, 1, DType::f64);
      const Tensor O = mechanism.forward(values(1), values(2), ones, {}, context).value();
      return O.slice(3, 0, 1).contiguous().to_vector<double>();
    };
    const std::vector<double> sums = sums_of_sinks(*plain, draws, s);
    EXPECT_LT(apart(first_column(*plain), sums), 1e-12);
    const std::vector<double> quotients = first_column(*of_ones(true));
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i] / quotients[i] - sums[i], 1e-6, 1e-10);
  }
}

TEST(Released, SparseWithSummariesOfWholeBlocksIsCausalBesideTheFirstToken) {
  const auto sparse = made({"sparse", {{"as", "released"}, {"block", 4}, {"summary", 4}}});
  const auto softmax = made("softmax");
  for (const Tensor& keys : {Tensor(), less(Tensor::arange(12).unsqueeze(0), Tensor::from<int64_t>({12, 7}, {2, 1}))}) {
    const auto of = [&, keys = keys](Mechanism& mechanism, bool causal) {
      Generator noise(5);
      Context context{noise, false};
      return mechanism.forward(values(1), values(2), values(3), {keys, causal}, context).value().contiguous();
    };
    const Tensor expected = of(*softmax, true);
    expected.slice(2, 0, 1).copy_(of(*softmax, false).slice(2, 0, 1));
    EXPECT_LT(apart(of(*sparse, false).to_vector<double>(), expected.to_vector<double>()), 1e-12);
  }
}

TEST(Released, GeneratorsHaveTheSizesOfTextOrThoseAsked) {
  const auto shapes = [](const Settings& more) {
    Settings settings = {{"features", 16}, {"as", "released"}};
    settings.insert(settings.end(), more.begin(), more.end());
    std::vector<Shape> found;
    for (const auto& [name, tensor] : made({"generative-prf", settings})->state()) {
      if (name.find("layers") == std::string::npos || !name.ends_with("bias")) continue;
      found.push_back(tensor.shape());
      // PyTorch's biases with Glorot's weights
      const std::vector<double> biases = tensor.cast(DType::f64).to_vector<double>();
      EXPECT_GT(apart(biases, std::vector<double>(biases.size(), 0)), 0.05) << name;
    }
    return found;
  };
  EXPECT_EQ(shapes({}), (std::vector<Shape>{{2 * kDim}, {4 * kDim}, {kDim}}));
  EXPECT_EQ(shapes({{"generator-noise", kDim}, {"generator-hidden", 4 * kDim}}),
            (std::vector<Shape>{{4 * kDim}, {kDim}}));
}

// SKY's code pads every batch to the longest sequence, so that segments have the same width in each batch.
TEST(Released, NystromformersSegmentsAreThoseOfTheLongestSequence) {
  const Settings small = {{"features", 4}, {"as", "skyformer"}};
  Settings of_longest = small;
  of_longest.push_back({"length", 32});
  const Tensor real = less(Tensor::arange(12).unsqueeze(0), Tensor::from<int64_t>({12, 7}, {2, 1}));
  const auto padded = [](const Tensor& x) {
    Tensor longer = Tensor::zeros({x.size(0), x.size(1), 32, x.size(3)}, x.dtype());
    longer.slice(2, 0, x.size(2)).copy_(x);
    return longer;
  };
  const auto mechanism = made({"nystromformer", of_longest});
  Generator noise(5);
  Context context{noise, false};
  Tensor mask = Tensor::zeros({2, 32}, DType::boolean);
  mask.slice(1, 0, 12).copy_(real);
  const Tensor whole =
      mechanism->forward(padded(values(1)), padded(values(2)), padded(values(3)), {mask, false}, context).value();
  EXPECT_LT(apart(output(*mechanism, 1, real), whole.slice(2, 0, 12).contiguous().to_vector<double>()), 1e-12);
  EXPECT_GT(apart(output(*mechanism, 1, real), output(*made({"nystromformer", small}), 1, real)), 1e-4);
}

TEST(Released, PerformersPaddedKeysAreZeros) {
  const Tensor real = less(Tensor::arange(12).unsqueeze(0), Tensor::from<int64_t>({12, 7}, {2, 1}));
  const auto performer = made({"performer", {{"features", 16}, {"as", "skyformer"}}});
  Generator noise(5);
  Context context{noise, false};
  const auto with_padding_of = [&](double x) {
    Tensor keys = values(2);
    keys.select(0, 1).slice(1, 7, 12).fill_(x);
    return performer->forward(values(1), keys, values(3), {real, false}, context).value().to_vector<double>();
  };
  EXPECT_EQ(with_padding_of(0), with_padding_of(3));
}

TEST(Released, LinearEluCountsPaddedKeys) {
  const Tensor keys = less(Tensor::arange(12).unsqueeze(0), Tensor::from<int64_t>({12, 7}, {2, 1}));
  const auto released = made({"linear-elu", {{"as", "released"}}});
  const auto paper = made("linear-elu");
  EXPECT_EQ(output(*released, 1, keys), output(*paper, 1, {}));
  EXPECT_GT(apart(output(*released, 1, keys), output(*paper, 1, keys)), 1e-3);
}

/// The blocks of keys that each block of queries weighs, in head 0 and in head 1, for a sequence of the given number of
/// tokens.
std::vector<std::vector<std::set<int64_t>>> blocks_seen(int64_t length) {
  constexpr int64_t kBlock = 64;
  const int64_t blocks = length / kBlock;
  Generator init(4);
  const auto mechanism = make_mechanism({}, 2, blocks, {"bigbird", {{"as", "skyformer"}, {"length", length}}}, init);
  const Tensor one_hot = equal(Tensor::arange(blocks).view({1, 1, blocks, 1, 1}), Tensor::arange(blocks))
                             .cast(DType::f32)
                             .expand({1, 2, blocks, kBlock, blocks})
                             .reshape({1, 2, length, blocks});
  const Tensor none = Tensor::zeros({1, 2, length, blocks});
  Generator noise(5);
  Context context{noise, false};
  const std::vector<float> O = mechanism->forward(none, none, one_hot, {}, context).value().to_vector<float>();
  std::vector<std::vector<std::set<int64_t>>> seen(2);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < blocks; ++i) {
      seen[static_cast<size_t>(h)].emplace_back();
      for (int64_t j = 0; j < blocks; ++j) {
        const auto at = static_cast<size_t>((h * length + i * kBlock) * blocks + j);
        if (O[at] > 0) seen[static_cast<size_t>(h)].back().insert(j);
      }
    }
  }
  return seen;
}

// Random blocks as in the plans of Hugging Face: among the first 1024 tokens if a sequence has 4096, among blocks 1 to
// 9 if it has 2048.
TEST(Released, BigBirdOfSkyformersCodeHasThePlansOfHuggingFace) {
  for (const auto& [length, last] : {std::pair<int64_t, int64_t>{4096, 15}, {2048, 9}}) {
    const auto seen = blocks_seen(length);
    const int64_t n = length / 64;
    EXPECT_NE(seen[0], seen[1]);
    for (const auto& head : seen) {
      std::set<int64_t> chosen;
      for (int64_t i = 1; i < n - 1; ++i) {
        std::set<int64_t> others = head[static_cast<size_t>(i)];
        for (const int64_t j : {int64_t{0}, i - 1, i, i + 1, n - 1}) {
          EXPECT_EQ(head[static_cast<size_t>(i)].count(j), 1U) << i << " " << j;
          others.erase(j);
        }
        EXPECT_EQ(others.size(), 3U) << i;
        chosen.insert(others.begin(), others.end());
      }
      EXPECT_EQ(head[0].size(), static_cast<size_t>(n));
      EXPECT_EQ(head[static_cast<size_t>(n - 1)].size(), static_cast<size_t>(n));
      EXPECT_EQ(*chosen.begin(), 1);
      EXPECT_EQ(*chosen.rbegin(), last);
    }
    if (length == 2048) {
      EXPECT_EQ(seen[0][1].count(9), 0U);
      EXPECT_EQ(seen[0][9].count(1), 0U);
    }
  }
}

TEST(Released, LinformerOfSkyformersCodeLearnsNothing) {
  const auto linformer = made({"linformer", {{"length", 12}, {"features", 4}, {"as", "skyformer"}}});
  EXPECT_TRUE(linformer->parameters().empty());
  EXPECT_EQ(linformer->state().at("E").shape(), Shape({2, 4, 12}));
}

// SKY's code, which is Hugging Face's, has no biases there, whatever its other mechanisms have.
TEST(Released, ReformerOfSkyformersCodeProjectsWithoutBiases) {
  for (const char* as : {"paper", "released", "skyformer"}) {
    Generator init(1);
    MultiHeadAttention attention({}, 16, {.mechanism = {"reformer", {{"as", as}}}, .heads = 2}, init);
    EXPECT_EQ(attention.qkv().bias != nullptr, std::string(as) != "skyformer") << as;
    EXPECT_NE(attention.out().bias, nullptr) << as;
  }
}

TEST(Released, MixturesBeginNearZero) {
  Generator init(1);
  ReleasedMixture mixture({}, 2, 8, 16, false, {0, false}, init);
  const double found = amax(abs(mixture.state().at("mean"))).item();
  EXPECT_LE(found, 1.0 / 16);
  EXPECT_GT(found, 0.5 / 16);
}

}  // namespace
}  // namespace bochner
