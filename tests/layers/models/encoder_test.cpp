#include "layers/models/encoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/random.h"
#include "layers/attention/mechanism.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

class EncoderWith : public testing::TestWithParam<std::string> {};

bool is_finite(const Tensor& x) {
  for (const double value : x.to_vector<double>()) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

TEST_P(EncoderWith, TrainsOnPaddedSequencesWithEitherPooling) {
  for (const auto pooling : {EncoderOptions::Pooling::mean, EncoderOptions::Pooling::cls}) {
    EncoderOptions options{.vocabulary = 9, .length = 20, .classes = 3, .layers = 1, .dim = 16, .hidden = 8};
    options.attention = {.mechanism = MechanismOptions(GetParam()).set_known({{"features", 8}, {"block", 8}}),
                         .heads = 2};
    options.pooling = pooling;
    Generator init(1), noise(2);
    SequenceClassifier model(options, init);
    const Tensor ids = integers({2, 17}, 0, 9, noise);  // shorter than the model's longest, and not whole blocks
    const Tensor real = less(Tensor::arange(17).unsqueeze(0), Tensor::from<int64_t>({17, 9}, {2, 1}));
    Context context{noise, true};
    Tape tape;
    const Variable logits = model.forward(ids, real, context);
    ASSERT_EQ(logits.shape(), (Shape{2, 3}));
    EXPECT_TRUE(is_finite(logits.value()));
    tape.backward(cross_entropy(logits, Tensor::from<int64_t>({0, 2}, {2})));
    for (const Parameter* parameter : model.parameters()) {
      if (parameter->grad.defined()) {
        EXPECT_TRUE(is_finite(parameter->grad)) << parameter->name;
      }
    }
    EXPECT_TRUE(model.parameters().front()->grad.defined());
  }
}

TEST(Encoder, TokensMayBeSumsOfEntries) {
  EncoderOptions options{.vocabulary = 3, .length = 4, .classes = 2, .layers = 1, .dim = 6, .hidden = 4};
  options.attention.mechanism = "softmax";
  options.pooling = EncoderOptions::Pooling::first;
  options.dropout = 0;
  const Tensor codes = Tensor::from<float>({0, 1, 1, 0, 1, 1}, {3, 2});
  Generator init(1);
  Generator again(1);
  SequenceClassifier plain(options, init);
  options.codes = codes;
  SequenceClassifier coded(options, again);
  // The same model, where each row of the plain table is that sum.
  auto state = coded.state();
  const Tensor entries = state.at("tokens.weight");
  ASSERT_EQ(entries.shape(), (Shape{2, 6}));
  auto rows = state;
  rows["tokens.weight"] = matmul(codes, entries);
  plain.load_state(rows);
  Generator noise(2);
  Context context{noise, false};
  const Tensor ids = Tensor::from<int64_t>({1, 2, 0, 2, 0, 0, 1, 1}, {2, 4});
  const std::vector<double> expected = plain.forward(ids, {}, context).value().to_vector<double>();
  EXPECT_EQ(coded.forward(ids, {}, context).value().to_vector<double>(), expected);
  options.codes = Tensor::zeros({2, 2});
  EXPECT_THROW(SequenceClassifier(options, init), Error);
}

TEST(Encoder, ReadsTheFirstTokenWithoutOneInFront) {
  EncoderOptions options{.vocabulary = 5, .length = 6, .classes = 2, .layers = 0, .dim = 6, .hidden = 4};
  options.pooling = EncoderOptions::Pooling::first;
  options.dropout = 0;
  Generator init(1);
  SequenceClassifier model(options, init);
  EXPECT_EQ(model.state().count("cls"), 0U);
  EXPECT_EQ(model.state().at("positions").shape(), (Shape{6, 6}));
  Generator noise(2);
  Context context{noise, false};
  const auto of = [&](std::vector<int64_t> ids) {
    return model.forward(Tensor::from(ids, {1, 3}), {}, context).value().to_vector<double>();
  };
  EXPECT_EQ(of({1, 2, 3}), of({1, 4, 4}));  // without layers, nothing flows between positions
  EXPECT_NE(of({1, 2, 3}), of({2, 2, 3}));
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const MechanismInfo& line : mechanisms()) names.push_back(line.name);
  return names;
}

std::string readable(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

/// A small classifier in f64, without dropout, and a padded batch for it.
struct Small {
  explicit Small(EncoderOptions changed) : options(std::move(changed)), model(options, init) {
    model.to(Device::cpu(), DType::f64);
    for (const auto& [name, tensor] : model.state()) {  // away from zeros, ones and small deviations
      if (is_floating(tensor.dtype())) tensor.copy_(tensor + normal(tensor.shape(), init, 0, 0.3, DType::f64));
    }
  }
  static EncoderOptions base() {
    EncoderOptions options{.vocabulary = 9, .length = 12, .classes = 3, .layers = 2, .dim = 8, .hidden = 6};
    options.attention = {.mechanism = "softmax", .heads = 2};
    options.dropout = 0;
    return options;
  }
  Tensor logits(bool training = false) {
    Generator noise(5);
    Context context{noise, training};
    return model.forward(ids, real, context).value();
  }
  Variable named(const std::string& name) { return model.state().at(name); }

  EncoderOptions options;
  Generator init{3};
  SequenceClassifier model;
  Tensor ids = Tensor::from<int64_t>({1, 2, 3, 4, 5, 8, 7, 6, 0, 0}, {2, 5});
  Tensor real = less(Tensor::arange(5).unsqueeze(0), Tensor::from<int64_t>({5, 3}, {2, 1}));
};

void expect_equal(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-10) << i;
}

/// conv(V), one tap at a time, for V (batch, length, dim) and taps (1, rows, width, dim): for images whose rows have
/// `columns` pixels, or for a sequence if that is 0.
Variable convolved(const Variable& V, const Variable& taps, int64_t columns) {
  const int64_t length = V.size(1), rows = taps.size(1), width = taps.size(2);
  const int64_t across = columns == 0 ? length : columns;
  std::vector<Variable> places;
  for (int64_t i = 0; i < length; ++i) {
    Variable y = slice(V, 1, i, i + 1) * 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t t = 0; t < width; ++t) {
        const int64_t row = i / across + r - rows / 2, column = i % across + t - width / 2;
        const int64_t from = row * across + column;
        if (row < 0 || column < 0 || column >= across || from >= length) continue;
        y = y + slice(V, 1, from, from + 1) * reshape(slice(slice(taps, 1, r, r + 1), 2, t, t + 1), {1, 1, V.size(2)});
      }
    }
    places.push_back(y);
  }
  return concat(places, 1);
}

/// The whole model in plain ops, as its papers write it.
Tensor composed(Small& small, bool training = false) {
  const EncoderOptions& options = small.options;
  const auto W = [&](const std::string& name) { return small.named(name); };
  const auto norm = [&](const Variable& x, const std::string& name) {
    const Variable centred = x - mean(x, {-1}, true);
    return centred / sqrt(mean(square(centred), {-1}, true) + options.norm_eps) * W(name + ".weight") +
           W(name + ".bias");
  };
  const auto linear = [&](const Variable& x, const std::string& name) {
    return matmul(x, transpose(W(name + ".weight"), 0, 1)) + W(name + ".bias");
  };
  const int64_t batch = small.ids.size(0), dim = options.dim, heads = 2;
  Variable x = reshape(take(W("tokens.weight"), small.ids.view({-1})), {batch, small.ids.size(1), dim});
  Tensor mask = small.real;
  if (options.pooling == EncoderOptions::Pooling::cls) {
    x = concat({expand(W("cls"), {batch, 1, dim}), x}, 1);
    mask = concat({Variable(Tensor::full({batch, 1}, 1, DType::boolean)), Variable(mask)}, 1).value();
  }
  const int64_t length = x.size(1);
  x = x + (options.positions == EncoderOptions::Positions::learned
               ? slice(W("positions"), 0, 0, length)
               : Variable(sinusoidal_positions(length, dim).cast(DType::f64)));
  const auto attend = [&](const Variable& n, const std::string& name) {
    const Variable qkv = linear(n, name + ".qkv");
    const auto head = [&](int64_t part) {
      return transpose(reshape(slice(qkv, -1, part * dim, (part + 1) * dim), {batch, length, heads, dim / heads}), 1,
                       2);
    };
    const Variable scores = matmul(head(0), transpose(head(1), -2, -1)) / std::sqrt(static_cast<double>(dim / heads));
    const Tensor keys = mask.unsqueeze(1).unsqueeze(1);
    const Variable weights = where(keys, exp(scores), Variable(Tensor::scalar(0, DType::f64)));
    const Variable O = matmul(weights, head(2)) / sum(weights, {-1}, true);
    Variable joined = reshape(transpose(O, 1, 2), {batch, length, dim});
    if (const int64_t width = options.attention.convolution; width > 0) {
      const Variable V = slice(qkv, -1, 2 * dim, 3 * dim) * Variable(mask.cast(DType::f64).unsqueeze(2));
      joined = joined + convolved(V, W(name + ".convolution"), options.width);
    }
    return linear(joined, name + ".out");
  };
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string block = "blocks." + std::to_string(i);
    const auto feed = [&](const Variable& s) {
      return linear(gelu(linear(norm(s, block + ".norm2"), block + ".feed_forward.in")), block + ".feed_forward.out");
    };
    const Variable n = norm(x, block + ".norm1");
    const bool released = options.block == EncoderOptions::Block::kl_released;
    const Variable s = (released ? n : x) + attend(n, block + ".attention");  // KL as released: from the normalised
    x = s + feed(s);
  }
  x = norm(x, "norm");
  Variable pooled = select(x, 1, 0);
  if (options.pooling == EncoderOptions::Pooling::max) {
    pooled = amax(where(mask.unsqueeze(2), x, Variable(Tensor::scalar(-1e30, DType::f64))), {1});
  } else if (options.pooling != EncoderOptions::Pooling::cls) {
    const Variable real = mask.cast(DType::f64).unsqueeze(2);
    const Variable total = sum(x * real, {1});
    pooled = options.pooling == EncoderOptions::Pooling::mean ? total / sum(real, {1})
                                                              : total / static_cast<double>(options.length);
  }
  if (options.pooled_batch_norm) {
    const Variable m = training ? mean(pooled, {0}, true) : W("pooled_norm.running_mean");
    const Variable variance = training ? mean(square(pooled - m), {0}, true) : W("pooled_norm.running_var");
    pooled = (pooled - m) / sqrt(variance + options.norm_eps);
  }
  if (options.classifier > 0) pooled = relu(linear(pooled, "classifier.hidden"));
  return linear(pooled, "classifier.classes").value();
}

TEST(Encoder, EveryOptionIsWhatThePlainCompositionSays) {
  using Options = EncoderOptions;
  for (const auto block : {Options::Block::pre_norm, Options::Block::kl_released}) {
    for (const auto pooling :
         {Options::Pooling::cls, Options::Pooling::mean, Options::Pooling::mean_padded, Options::Pooling::max}) {
      for (const auto positions : {Options::Positions::learned, Options::Positions::sinusoidal}) {
        Options options = Small::base();
        options.block = block;
        options.pooling = pooling;
        options.positions = positions;
        options.classifier = pooling == Options::Pooling::mean ? 7 : 0;
        Small small(options);
        SCOPED_TRACE(testing::Message() << static_cast<int>(block) << static_cast<int>(pooling)
                                        << static_cast<int>(positions));
        expect_equal(small.logits(), composed(small));
      }
    }
  }
}

TEST(Encoder, AConvolutionOfTheValuesIsAddedToWhatAttentionGives) {
  for (const int64_t columns : {0, 2}) {  // a sequence; images of two columns, the last row cut in half
    EncoderOptions options = Small::base();
    options.attention.convolution = 3;
    options.width = columns;
    options.pooling = EncoderOptions::Pooling::max;
    Small small(options);
    const Shape wanted{1, columns > 0 ? 3 : 1, 3, 8};
    EXPECT_EQ(small.model.state().at("blocks.1.attention.convolution").shape(), wanted);
    expect_equal(small.logits(), composed(small));
  }
}

TEST(Encoder, VectorsOfSequencesAreStandardisedOverTheBatch) {
  for (const bool training : {true, false}) {
    EncoderOptions options = Small::base();
    options.pooled_batch_norm = true;
    Small small(options);
    const Tensor expected = composed(small, training);
    expect_equal(small.logits(training), expected);
  }
}

TEST(Encoder, RecomputingBlocksChangesNeitherTheLossNorTheGradients) {
  const auto run = [](bool recompute) {
    EncoderOptions options = Small::base();
    options.recompute = recompute;
    options.dropout = 0.2;
    options.attention.mechanism = "performer";
    Small small(options);
    Generator noise(6);
    Context context{noise, true};
    Tape tape;
    const Variable loss =
        cross_entropy(small.model.forward(small.ids, small.real, context), Tensor::from<int64_t>({0, 2}, {2}));
    tape.backward(loss);
    std::vector<std::vector<double>> results = {{loss.item(), static_cast<double>(noise.offset())}};
    for (const Parameter* parameter : small.model.parameters()) {
      results.push_back(parameter->grad.defined() ? parameter->grad.to_vector<double>() : std::vector<double>());
    }
    return results;
  };
  const auto plain = run(false), again = run(true);
  ASSERT_EQ(plain.size(), again.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(plain[i].size(), again[i].size()) << i;
    for (size_t k = 0; k < plain[i].size(); ++k) EXPECT_NEAR(plain[i][k], again[i][k], 1e-10) << i;
  }
}

// Names are those that checkpoints had before trunk and head were separated.
TEST(Encoder, TrunkAndHeadKeepTheNamesOfTheWholeModel) {
  EncoderOptions options{.vocabulary = 9, .length = 6, .classes = 3, .layers = 1, .dim = 8, .hidden = 4};
  options.classifier = 5;
  options.pooling = EncoderOptions::Pooling::cls;
  options.attention.mechanism = "softmax";
  Generator init(1);
  SequenceClassifier model(options, init);
  std::vector<std::string> names;
  for (const auto& [name, value] : model.state()) names.push_back(name);
  const std::vector<std::string> expected = {"blocks.0.attention.out.bias",
                                             "blocks.0.attention.out.weight",
                                             "blocks.0.attention.qkv.bias",
                                             "blocks.0.attention.qkv.weight",
                                             "blocks.0.feed_forward.in.bias",
                                             "blocks.0.feed_forward.in.weight",
                                             "blocks.0.feed_forward.out.bias",
                                             "blocks.0.feed_forward.out.weight",
                                             "blocks.0.norm1.bias",
                                             "blocks.0.norm1.weight",
                                             "blocks.0.norm2.bias",
                                             "blocks.0.norm2.weight",
                                             "classifier.classes.bias",
                                             "classifier.classes.weight",
                                             "classifier.hidden.bias",
                                             "classifier.hidden.weight",
                                             "cls",
                                             "norm.bias",
                                             "norm.weight",
                                             "positions",
                                             "tokens.weight"};
  EXPECT_EQ(names, expected);
}

TEST(Encoder, ATrunkOfItsOwnIsThatOfTheWholeModel) {
  for (const auto pooling : {EncoderOptions::Pooling::cls, EncoderOptions::Pooling::mean,
                             EncoderOptions::Pooling::mean_padded, EncoderOptions::Pooling::max}) {
    EncoderOptions options{.vocabulary = 9, .length = 6, .classes = 3, .layers = 2, .dim = 8, .hidden = 4};
    options.classifier = 5;
    options.pooling = pooling;
    options.attention.mechanism = "softmax";
    Generator init(1), other(2), noise(3);
    SequenceClassifier whole(options, init);
    /// Another model around a trunk, under a given name.
    class Tower final : public Module {
     public:
      Tower(const EncoderOptions& of, Generator& g)
          : trunk(sub("trunk"), of, g), head(sub("head"), of.dim, of.classifier, of.classes, of.linear, g) {}
      Encoder trunk;
      ClassifierHead head;
    } tower(options, other);
    std::map<std::string, Tensor> named;
    for (const auto& [name, value] : whole.state()) {
      named[name.starts_with("classifier.") ? "head." + name.substr(11) : "trunk." + name] = value;
    }
    tower.load_state(named);
    const Tensor ids = integers({2, 5}, 0, 9, noise);
    const Tensor real = less(Tensor::arange(5).unsqueeze(0), Tensor::from<int64_t>({5, 3}, {2, 1}));
    Context context{noise, false};
    const Encoder::States states = tower.trunk.forward(ids, real, context);
    const int64_t places = pooling == EncoderOptions::Pooling::cls ? 6 : 5;
    ASSERT_EQ(states.x.shape(), (Shape{2, places, 8}));
    ASSERT_EQ(states.mask.shape(), (Shape{2, places}));
    const Variable scores = tower.head.scores(tower.head.units(tower.trunk.pool(states, context)));
    EXPECT_EQ(scores.value().to_vector<double>(), whole.forward(ids, real, context).value().to_vector<double>());
  }
}

TEST(Encoder, EmbeddingsAreDroppedInTraining) {
  EncoderOptions options = Small::base();
  options.layers = 0, options.dropout = 0.5;
  Small small(options);
  EXPECT_NE(small.logits(true).to_vector<double>(), small.logits().to_vector<double>());
}

TEST(Encoder, ImpossibleSizesAreRefused) {
  const auto message = [](auto&& change) {
    return message_of([&] {
      EncoderOptions options = Small::base();
      change(options);
      Generator init(1);
      SequenceClassifier model(options, init);
    });
  };
  EXPECT_EQ(message([](EncoderOptions& o) { o.attention.heads = 3; }),
            "attention: 3 heads do not divide the model size 8; choose a divisor, or give the head size");
  EXPECT_EQ(message([](EncoderOptions& o) { o.attention.convolution = 4; }),
            "attention: convolution=4: an odd number of places, or 0 for none");
  EXPECT_EQ(message([](EncoderOptions& o) { o.attention.convolution = 3, o.causal = true; }),
            "encoder: a convolution of values reads later tokens, too, but the model is causal");
  const auto in_front = [](EncoderOptions& o) {
    o.attention.convolution = 3, o.width = 3, o.pooling = EncoderOptions::Pooling::cls;
  };
  EXPECT_EQ(message(in_front),
            "encoder: a convolution of values is one of pixels, but the learned vector in front (pooling cls) is none");
  EXPECT_EQ(message([](EncoderOptions& o) { o.classes = 0; }), "classifier: 0 classes; at least 1");
  EXPECT_NE(message([](EncoderOptions& o) { o.vocabulary = 0; }).find("vocabulary 0"), std::string::npos);
  EXPECT_NE(message([](EncoderOptions& o) { o.attention.mechanism = "sofmax"; }).find("softmax"), std::string::npos);
  Small small(Small::base());
  Generator noise(1);
  Context context{noise};
  EXPECT_THROW(small.model.forward(Tensor::zeros({2, 13}, DType::i64), {}, context), Error);
  EXPECT_THROW(small.model.forward(Tensor::zeros({2}, DType::i64), {}, context), Error);
}

INSTANTIATE_TEST_SUITE_P(Registry, EncoderWith, testing::ValuesIn(all_names()), readable);

}  // namespace
}  // namespace bochner
