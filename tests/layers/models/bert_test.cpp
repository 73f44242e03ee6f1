// What BERT and ViT do beyond what transformers does: other attentions in some blocks, training, bf16, refusals. Their
// numbers are tested in hugging_face_test.cpp.
#include "layers/models/bert.h"

#include <gtest/gtest.h>

#include <set>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/precision.h"
#include "layers/models/hugging_face.h"
#include "layers/models/vit.h"
#include "tests/files.h"

namespace bochner {
namespace {

BertOptions small_bert() {
  BertOptions options{.vocabulary = 11, .length = 12, .layers = 3, .dim = 8, .hidden = 6, .classes = 2};
  options.attention.heads = 2;
  options.deviation = 0.3;
  return options;
}

Tensor some_ids(const Shape& shape) {
  Generator generator(7);
  return integers(shape, 1, 11, generator);
}

double largest_number(const Tensor& x) { return amax(abs(x)).item(); }

TEST(BlockNumbers, AreReadFromText) {
  EXPECT_EQ(block_numbers("8-11", 12), (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(block_numbers("5-6,0,2,5", 12), (std::vector<int64_t>{0, 2, 5, 6}));
  for (const char* bad : {"", "a", "1-", "-1", "12", "3-2", "1,,2", "1;2", "1 ", "99999999999999999999"})
    EXPECT_THROW(block_numbers(bad, 12), Error) << bad;
}

TEST(Bert, AttentionOfTheRegistryStandsInTheBlocksNamed) {
  BertOptions options = small_bert();
  options.attention.mechanism = {"gmm-prf", {{"features", 8}}};
  options.attention_blocks = {1};
  Generator init(1);
  Bert bert({}, options, init);
  std::set<std::string> blocks;
  for (const auto& [name, tensor] : bert.state()) {
    if (name.find("mechanism") != std::string::npos) blocks.insert(name.substr(0, 9));
  }
  EXPECT_EQ(blocks, (std::set<std::string>{"blocks.1."}));
  options.attention_blocks = {};
  Bert all({}, options, init);
  blocks.clear();
  for (const auto& [name, tensor] : all.state()) {
    if (name.find("mechanism") != std::string::npos) blocks.insert(name.substr(0, 9));
  }
  EXPECT_EQ(blocks.size(), 3U);
  options.attention_blocks = {3};
  EXPECT_THROW(Bert({}, options, init), Error);
}

TEST(Bert, WeightsOfAttentionAreDroppedInEachBlockThatHasThem) {
  BertOptions options = small_bert();
  options.dropout = 0;
  options.attention.mechanism = {"performer", {{"features", 8}, {"redraw", 0}}};
  options.attention_blocks = {1};
  const Tensor ids = some_ids({2, 9});
  const auto states = [&](uint64_t seed) {
    Generator init(1), noise(seed);
    Bert bert({}, options, init);
    Context context{noise, true};
    return bert.forward({ids, {}}, context).value().to_vector<float>();
  };
  options.attention_dropout = 0.5;
  EXPECT_NE(states(2), states(3));  // of blocks 0 and 2, which have softmax
  options.attention_blocks = {0, 1, 2};
  EXPECT_EQ(states(2), states(3));  // performer has none
  options.attention_blocks = {1};
  options.attention_dropout = 0;
  EXPECT_EQ(states(2), states(3));
}

TEST(Bert, ReadsNothingOfPaddedTokens) {
  for (const char* attention : {"softmax", "performer", "gaussian"}) {
    BertOptions options = small_bert();
    options.attention.mechanism = MechanismOptions(attention).set_known({{"features", 8}});
    Generator init(1), noise(2);
    Bert bert({}, options, init);
    bert.to(Device::cpu(), DType::f64);
    Context context{noise, false};
    const Tensor ids = some_ids({2, 9});
    const Tensor mask = less(Tensor::arange(9).unsqueeze(0), Tensor::from<int64_t>({5, 5}, {2, 1}));
    const Variable padded = bert.forward({ids, mask}, context);
    const Variable alone = bert.forward({ids.slice(1, 0, 5).contiguous()}, context);
    EXPECT_LT(largest_number(slice(padded, 1, 0, 5).value() - alone.value()), 1e-10) << attention;
  }
}

/// The loss after each of the given number of steps down the gradient.
template <class Loss>
std::vector<double> descend(Module& model, const Loss& loss, int steps, double rate) {
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    Tape tape;
    const Variable y = loss();
    losses.push_back(y.item());
    tape.backward(y);
    for (Parameter* parameter : model.parameters()) {
      if (parameter->grad.defined()) parameter->value.copy_(parameter->value - parameter->grad * rate);
    }
    model.clear_gradients();
  }
  return losses;
}

TEST(Bert, TrainsWithDropoutInF32AndBf16AndWithRecomputation) {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    set_precision(precision);
    std::vector<std::vector<double>> runs;
    for (const bool recompute : {false, true}) {
      BertOptions options = small_bert();
      options.recompute = recompute;
      Generator init(1), noise(2);
      Bert bert({}, options, init);
      Context context{noise, true};
      const Tensor ids = some_ids({8, 9}), types = Tensor::zeros({8, 9}, DType::i64);
      const Tensor labels = Tensor::from<int64_t>({0, 1, 0, 1, 1, 1, 0, 0}, {8});
      runs.push_back(descend(
          bert,
          [&] {
            const Variable scores = bert.class_scores(bert.pool(bert.forward({ids, {}, types}, context)), context);
            EXPECT_EQ(scores.dtype(), DType::f32);
            return cross_entropy(scores, labels);
          },
          60, 0.3));
      EXPECT_LT(runs.back().back(), 0.5 * runs.back().front());
    }
    EXPECT_EQ(runs[0], runs[1]);
  }
  set_precision(Precision::f32);
}

TEST(Bert, TheVectorOfThePaddingTokenIsNotTrainedAsAnInput) {
  BertOptions options = small_bert();
  options.masked_tokens = true;
  Generator init(1), noise(2);
  Bert bert({}, options, init);
  EXPECT_EQ(largest_number(bert.state().at("embeddings.tokens.weight").select(0, 0)), 0);
  Context context{noise, false};
  const Tensor ids = Tensor::from<int64_t>({1, 0, 2, 0}, {1, 4});
  const auto gradient_of = [&](const auto& output) {
    bert.clear_gradients();
    Tape tape;
    const Variable y = output(bert.forward({ids}, context));
    tape.backward({y}, {Tensor::full(y.shape(), 1)});
    for (const Parameter* parameter : bert.parameters()) {
      if (parameter->name == "embeddings.tokens.weight") return parameter->grad.clone();
    }
    return Tensor();
  };
  const Tensor of_inputs = gradient_of([&](const Variable& x) { return bert.pool(x); });
  EXPECT_EQ(largest_number(of_inputs.select(0, 0)), 0);
  EXPECT_GT(largest_number(of_inputs.select(0, 2)), 0);
  const Tensor tied = gradient_of([&](const Variable& x) { return bert.token_scores(x); });
  EXPECT_GT(largest_number(tied.select(0, 0)), 0) << "as an output it is";
}

TEST(Bert, SinusoidalPositionsStayAndFilesSayWhatTheyAre) {
  BertOptions options = small_bert();
  options.dropout = options.attention_dropout = options.classifier_dropout = 0;
  Generator init(1);
  const int64_t learnt = Bert({}, options, init).parameter_count();
  options.positions = BertOptions::Positions::sinusoidal;
  Bert bert({}, options, init);
  EXPECT_EQ(bert.parameter_count(), learnt - options.length * options.dim);
  const Tensor ids = some_ids({4, 9}), labels = Tensor::from<int64_t>({0, 1, 1, 0}, {4});
  Generator noise(2);
  Context context{noise, true};
  const Tensor words = bert.state().at("embeddings.tokens.weight").clone();
  descend(
      bert, [&] { return cross_entropy(bert.class_scores(bert.pool(bert.forward({ids}, context)), context), labels); },
      2, 0.3);
  const test::TemporaryFolder folder;
  save_pretrained(bert, folder.path());
  Generator other(3);
  Bert read({}, read_bert_options(folder.path()), other);
  load_pretrained(read, folder.path());
  EXPECT_EQ(read.parameter_count(), bert.parameter_count());
  EXPECT_EQ(pretrained_type(folder.path()), "bert") << "transformers reads the table as it does a learned one";
  for (Bert* one : {&bert, &read}) {
    EXPECT_EQ(largest_number(one->state().at("embeddings.positions.weight") - sinusoidal_positions(12, 8) * 0.3), 0);
    EXPECT_GT(largest_number(one->state().at("embeddings.tokens.weight") - words), 0);
  }
}

TEST(Bert, RefusesWhatDoesNotFit) {
  Generator init(1), noise(2);
  Bert bert({}, small_bert(), init);
  Context context{noise, false};
  EXPECT_THROW(bert.forward({some_ids({9})}, context), Error);
  EXPECT_THROW(bert.forward({some_ids({1, 13})}, context), Error);
  EXPECT_THROW(bert.forward({some_ids({2, 9}), Tensor::full({2, 8}, 1, DType::boolean)}, context), Error);
  EXPECT_THROW(bert.forward({some_ids({2, 9}), {}, some_ids({1, 9})}, context), Error);
  EXPECT_THROW(bert.forward({Tensor::full({1, 3}, 11, DType::i64)}, context), Error);
  EXPECT_THROW(bert.forward({some_ids({1, 3}), {}, Tensor::full({1, 3}, 2, DType::i64)}, context), Error);
  const Variable x = bert.forward({some_ids({2, 9})}, context);
  EXPECT_THROW(bert.token_scores(x), Error);
  EXPECT_THROW(bert.next_sentence_scores(bert.pool(x)), Error);
  const auto refused = [&](const auto& change) {
    BertOptions options = small_bert();
    change(options);
    EXPECT_THROW(Bert({}, options, init), Error);
  };
  refused([](BertOptions& o) { o.pooler = false; });
  refused([](BertOptions& o) { o.types = 0; });
  refused([](BertOptions& o) { o.padding = 11; });
  refused([](BertOptions& o) { o.attention.heads = 3; });
}

TEST(Vit, TrainsAndRefusesWhatDoesNotFit) {
  VitOptions options{.image = 6, .patch = 3, .channels = 2, .layers = 2, .dim = 8, .hidden = 6};
  options.attention.heads = 2;
  options.dropout = 0.1;
  options.classes = 2;
  options.deviation = 0.3;
  Generator init(1), noise(2);
  Vit vit({}, options, init);
  Context context{noise, true};
  const Tensor pixels = normal({6, 2, 6, 6}, noise);
  const Tensor labels = Tensor::from<int64_t>({0, 1, 0, 1, 1, 0}, {6});
  const std::vector<double> losses = descend(
      vit, [&] { return cross_entropy(vit.class_scores(vit.pool(vit.forward(pixels, context)), context), labels); }, 60,
      0.1);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
  EXPECT_THROW(vit.forward(normal({6, 2, 6, 7}, noise), context), Error);
  EXPECT_THROW(vit.forward(normal({2, 6, 6}, noise), context), Error);
  const Variable x = vit.forward(pixels, context);
  EXPECT_EQ(vit.pool(x).value().to_vector<float>(), x.value().select(1, 0).contiguous().to_vector<float>());
  EXPECT_THROW(vit.replace_pooler({}, init), Error);
  options.patch = 4;
  EXPECT_THROW(Vit({}, options, init), Error);
}

TEST(Bert, AnotherAttentionIsReadAgainByThisLibraryAlone) {
  const test::TemporaryFolder folder;
  BertOptions options{.vocabulary = 7, .length = 5, .layers = 3, .dim = 6, .hidden = 4};
  options.attention.heads = 2;
  options.attention.head_dim = 4;
  options.attention.mechanism = MechanismOptions("gmm-prf", {{"features", 6}, {"redraw", 7}});
  options.attention_blocks = {0, 2};
  options.classes = 3;
  Generator init(1);
  Bert bert({}, options, init);
  save_pretrained(bert, folder / "mine", {}, Reader::own);
  EXPECT_NE(test::contents(folder / "mine/config.json").find("\"bochner-bert\""), std::string::npos);
  EXPECT_EQ(pretrained_type(folder / "mine"), "bert");
  const BertOptions found = read_bert_options(folder / "mine");
  EXPECT_EQ(found.attention.mechanism.name(), "gmm-prf");
  EXPECT_EQ(found.attention.mechanism.text("features"), "6");
  EXPECT_EQ(found.attention.mechanism.text("redraw"), "7");
  EXPECT_EQ(found.attention.head_dim, 4);
  EXPECT_EQ(found.attention_blocks, (std::vector<int64_t>{0, 2}));
  Generator other(2);
  Bert again({}, found, other);
  EXPECT_TRUE(load_pretrained(again, folder / "mine").made_new.empty());
  const auto before = bert.state();
  for (const auto& [name, tensor] : again.state()) {
    EXPECT_EQ(tensor.to_vector<double>(), before.at(name).to_vector<double>()) << name;
  }
  BertOptions same = found;
  set_attention(same, folder / "mine", "gmm-prf");  // another number of features, but the folder's stays
  EXPECT_EQ(same.attention.mechanism.text("features"), "6");
  EXPECT_THROW(set_attention(same, folder / "mine", "softmax"), Error);
  EXPECT_THROW(set_attention(same, folder / "mine", "gmm-prf", "1"), Error);
  // With softmax, the folder is one for transformers.
  Bert plain({}, {.vocabulary = 7, .length = 5, .layers = 1, .dim = 4, .hidden = 4, .attention = {.heads = 2}}, init);
  save_pretrained(plain, folder / "plain", {}, Reader::own);
  EXPECT_NE(test::contents(folder / "plain/config.json").find("\"bert\""), std::string::npos);
  // Hostile files.
  std::string right = test::contents(folder / "mine/config.json");
  const auto refused = [&](const std::string& what, const std::string& with, const std::string& text) {
    std::string wrong = right;
    ASSERT_NE(wrong.find(what), std::string::npos) << what;
    wrong.replace(wrong.find(what), what.size(), with);
    test::put(folder / "mine/config.json", wrong);
    try {
      read_bert_options(folder / "mine");
      ADD_FAILURE() << with;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refused("\"gmm-prf\"", "\"gmm-pfr\"", "'gmm-pfr' is not known");
  refused("\"features\": \"6\"", "\"features\": \"-6\"", "features");
  refused("\"features\": \"6\"", "\"features\": 6", "is no text");
  refused("\"features\"", "\"fetures\"", "features");
  refused("\"head_size\": 4", "\"head_size\": 65536", "its sizes ask for at least");
  refused("\"attention\": {", "\"attention\": 3, \"other\": {", "attention is no object");
  BertOptions projected = options;
  projected.attention.mechanism = MechanismOptions("linformer", {{"features", 3}});
  Bert linformer({}, projected, init);
  save_pretrained(linformer, folder / "mine", {}, Reader::own);
  right = test::contents(folder / "mine/config.json");
  refused("\"length\": \"0\"", "\"length\": \"1000000000\"",
          "option length is 1000000000, but the model has 5 positions");
}

}  // namespace
}  // namespace bochner
