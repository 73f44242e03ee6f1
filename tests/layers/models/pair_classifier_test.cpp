#include "layers/models/pair_classifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/reduce.h"
#include "engine/ops/binary.h"
#include "engine/random.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

EncoderOptions small_pairs(EncoderOptions::Pair pair, int64_t hidden = 6) {
  EncoderOptions options{.vocabulary = 9, .length = 7, .classes = 2, .layers = 1, .dim = 8, .hidden = 8};
  options.attention = {.mechanism = "softmax", .heads = 2};
  options.classifier = hidden;
  options.pair = pair;
  options.dropout = 0;
  return options;
}

/// W x + b, computed by hand.
std::vector<double> applied(const std::map<std::string, Tensor>& state, const std::string& layer,
                            const std::vector<double>& x, bool rectify) {
  const Tensor& weight = state.at("classifier." + layer + ".weight");
  const std::vector<double> w = weight.to_vector<double>();
  std::vector<double> y = state.at("classifier." + layer + ".bias").to_vector<double>();
  EXPECT_EQ(weight.shape(), (Shape{std::ssize(y), std::ssize(x)})) << layer;
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
    if (rectify) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

std::vector<double> joined(std::initializer_list<std::vector<double>> parts) {
  std::vector<double> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class PairHeads : public testing::TestWithParam<EncoderOptions::Pair> {};

/// The trunk by itself on each sequence, then the head as its paper writes it.
TEST_P(PairHeads, ReadBothSequencesThroughOneTrunk) {
  const EncoderOptions options = small_pairs(GetParam());
  Generator init(1);
  PairClassifier model(options, init);
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : model.state()) state[name] = tensor;
  Generator noise(3);
  for (auto& [name, tensor] : state) tensor.copy_(normal(tensor.shape(), noise, 0, 0.5));
  // The same weights in a separate trunk, whose names have no prefix.
  struct Trunk : Module {
    Trunk(const EncoderOptions& o, Generator& g) : encoder(sub(""), o, g) {}
    Encoder encoder;
  };
  Trunk alone(options, init);
  for (const auto& [name, tensor] : alone.state()) {
    Tensor copy = tensor;
    copy.copy_(state.at(name));
  }

  const Tensor ids = integers({3, 2, 7}, 1, 9, noise);
  const Tensor lengths = Tensor::from<int64_t>({7, 4, 5, 7, 1, 3}, {3, 2, 1});
  const Tensor mask = less(Tensor::arange(7).reshape({1, 1, 7}), lengths);
  Context context{noise, false};
  const Tensor scores = model.forward(ids, mask, context).value();
  ASSERT_EQ(scores.shape(), (Shape{3, 2}));
  const auto vector_of = [&](int64_t example, int64_t sequence) {
    const Tensor one = ids.select(0, example).select(0, sequence).reshape({1, 7});
    const Tensor real = mask.select(0, example).select(0, sequence).reshape({1, 7});
    return alone.encoder.pool(alone.encoder.forward(one, real, context), context).value().to_vector<double>();
  };
  for (int64_t i = 0; i < 3; ++i) {
    const std::vector<double> u = vector_of(i, 0);
    const std::vector<double> v = vector_of(i, 1);
    std::vector<double> x = joined({u, v});
    if (GetParam() == EncoderOptions::Pair::skyformer) {
      std::vector<double> product;
      std::vector<double> difference;
      for (size_t k = 0; k < u.size(); ++k) {
        product.push_back(u[k] * v[k]);
        difference.push_back(u[k] - v[k]);
      }
      x = joined({u, v, product, difference});
    }
    x = applied(state, "hidden", x, true);
    if (GetParam() == EncoderOptions::Pair::arena) x = applied(state, "narrow", x, true);
    x = applied(state, "classes", x, false);
    for (int64_t c = 0; c < 2; ++c) {
      EXPECT_NEAR(scores.select(0, i).select(0, c).item(), x[static_cast<size_t>(c)], 1e-4) << i << " " << c;
    }
  }
}

TEST_P(PairHeads, LearnFromBothSequences) {
  Generator init(1), noise(2);
  PairClassifier model(small_pairs(GetParam()), init);
  const Tensor ids = integers({4, 2, 7}, 1, 9, noise);
  Context context{noise, true};
  Tape tape;
  tape.backward(cross_entropy(model.forward(ids, {}, context), Tensor::from<int64_t>({0, 1, 1, 0}, {4})));
  for (const Parameter* parameter : model.parameters()) EXPECT_TRUE(parameter->grad.defined()) << parameter->name;
}

INSTANTIATE_TEST_SUITE_P(, PairHeads, testing::Values(EncoderOptions::Pair::arena, EncoderOptions::Pair::skyformer),
                         [](const auto& of) {
                           return of.param == EncoderOptions::Pair::arena ? "arena" : "skyformer";
                         });

TEST(PairClassifier, RefusesWhatIsNoPair) {
  Generator init(1), noise(2);
  Context context{noise, false};
  PairClassifier model(small_pairs(EncoderOptions::Pair::arena, 0), init);
  EXPECT_EQ(model.forward(integers({3, 2, 5}, 0, 9, noise), {}, context).shape(), (Shape{3, 2}));
  EXPECT_THROW(model.forward(integers({3, 5}, 0, 9, noise), {}, context), Error);
  EXPECT_THROW(model.forward(integers({3, 1, 5}, 0, 9, noise), {}, context), Error);
  EXPECT_THROW(PairClassifier(small_pairs(EncoderOptions::Pair::arena, 1), init), Error);
}

TEST(PairClassifier, TheTrunkAloneNeedsNoClasses) {
  EncoderOptions options = small_pairs(EncoderOptions::Pair::arena);
  options.classes = 0;
  Generator init(1), noise(2);
  EXPECT_EQ(test::message_of([&] { PairClassifier model(options, init); }), "classifier: 0 classes; at least 1");
  // No mask means the same as a mask of only real tokens, also if sequences are shorter than `length`.
  for (const auto pooling : {EncoderOptions::Pooling::mean, EncoderOptions::Pooling::mean_padded}) {
    options.pooling = pooling;
    const Encoder trunk({}, options, init);
    Context context{noise, false};
    const Tensor ids = integers({2, 5}, 0, 9, noise);
    const auto pooled = [&](const Tensor& mask) {
      return trunk.pool(trunk.forward(ids, mask, context), context).value().to_vector<double>();
    };
    const std::vector<double> all = pooled(Tensor::full({2, 5}, 1, DType::boolean)), without = pooled({});
    for (size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(without[i], all[i], 1e-5);
  }
}

}  // namespace
}  // namespace bochner
