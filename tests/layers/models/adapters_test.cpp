// What is added to a pretrained model, or replaced in it: what it computes at first and later, what is trained, and the
// counts that papers give.
#include "layers/adapters.h"

#include <gtest/gtest.h>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/work.h"
#include "layers/models/bert.h"
#include "layers/models/peft.h"
#include "layers/models/vit.h"
#include "tests/files.h"

namespace bochner {
namespace {

double largest(const Tensor& x) { return amax(abs(x)).item(); }

Tensor noise(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return normal(shape, generator);
}

BertOptions adapted_bert() {
  BertOptions options{.vocabulary = 11, .length = 12, .layers = 2, .dim = 8, .hidden = 16, .classes = 3};
  options.attention.heads = 2;
  options.deviation = 0.3;
  return options;
}

/// For some ids, without dropout.
Tensor scores_of(const Bert& bert) {
  Generator draws(5);
  const Tensor ids = integers({3, 7}, 1, 11, draws);
  Context context{draws, false};
  return bert.class_scores(bert.pool(bert.forward({ids}, context)), context).value();
}

TransformerBlock::MakeAdapter snnk_adapter(int64_t dim, Generator& init) {
  return [dim, &init](Slot slot) { return std::make_unique<SnnkAdapter>(slot, dim, AdapterOptions{}, init); };
}

TransformerBlock::MakeAdapter bottleneck(int64_t dim, Generator& init) {
  return [dim, &init](Slot slot) {
    return std::make_unique<BottleneckAdapter>(slot, dim, BottleneckOptions{.size = 48}, init);
  };
}

int64_t trained(Module& model, std::string_view part) {
  int64_t count = 0;
  for (const Parameter* parameter : model.parameters()) {
    if (parameter->name.find(part) != std::string::npos) count += parameter->value.size();
  }
  return count;
}

TEST(Adapters, BothProductsOfABottleneckBeginSmall) {
  Generator init(1);
  BottleneckAdapter adapter({}, 64, {.size = 32, .deviation = 0.01}, init);
  for (const char* name : {"down.weight", "up.weight"}) {
    const double mean_square = mean(square(Variable(adapter.state().at(name)))).item();
    EXPECT_NEAR(std::sqrt(mean_square), 0.01, 0.001) << name;  // for 2,048 numbers: 1.6 % off
  }
}

TEST(Adapters, ABottleneckIsItsFormula) {
  Generator init(1);
  const BottleneckAdapter adapter({}, 6, {.size = 4, .activation = Activation::relu, .deviation = 0.5}, init);
  auto state = const_cast<BottleneckAdapter&>(adapter).state();
  state.at("down.bias").copy_(noise({4}, 2));
  state.at("up.bias").copy_(noise({6}, 3));
  const Tensor x = noise({5, 6}, 4);
  const Tensor h = relu(matmul(x, state.at("down.weight").transpose(0, 1)) + state.at("down.bias"));
  const Tensor expected = x + matmul(h, state.at("up.weight").transpose(0, 1)) + state.at("up.bias");
  EXPECT_LT(largest(adapter.forward(x).value() - expected), 1e-6);
}

TEST(Adapters, ALowRankUpdateIsAddedToItsRows) {
  Generator init(1);
  Linear linear({}, 6, 9, init);
  const Tensor x = noise({5, 6}, 4);
  const Tensor before = linear.forward(x).value();
  linear.add_low_rank("update", 3, 6, {.rank = 2, .alpha = 8}, init);
  EXPECT_EQ(largest(linear.forward(x).value() - before), 0);  // B is 0
  auto state = linear.state();
  const Tensor A = state.at("update.lora_A.weight");
  const Tensor B = state.at("update.lora_B.weight");
  B.copy_(noise({3, 2}, 3));
  const Tensor after = linear.forward(x).value();
  const Tensor update = matmul(x, matmul(B * 4.0, A).transpose(0, 1));  // alpha / rank = 4
  EXPECT_LT(largest(after.slice(1, 3, 6) - before.slice(1, 3, 6) - update), 1e-5);
  EXPECT_EQ(largest(after.slice(1, 0, 3) - before.slice(1, 0, 3)), 0);
  EXPECT_EQ(largest(after.slice(1, 6, 9) - before.slice(1, 6, 9)), 0);
  EXPECT_THROW(linear.add_low_rank("more", 0, 3, {.rank = 0}, init), Error);
}

TEST(Adapters, UpdatesAreTheirProductWithNormResidualAndReluAndCanBeMerged) {
  Generator init(1);
  const LayerNorm norm({}, 6);
  norm.weight.value.copy_(noise({6}, 7));
  norm.bias.value.copy_(noise({6}, 8));
  for (const bool relu : {false, true}) {
    Linear linear({}, 6, 9, init);
    linear.add_low_rank("first", 0, 3, {.rank = 2, .alpha = 8}, init);
    linear.add_low_rank("last", 4, 9, {.rank = 3, .alpha = 3}, init);
    auto state = linear.state();
    state.at("first.lora_B.weight").copy_(noise({3, 2}, 3));
    state.at("last.lora_B.weight").copy_(noise({5, 3}, 4));
    const Variable x = noise({5, 6}, 5);
    const Variable residual = relu ? Variable() : Variable(noise({5, 9}, 6));
    Generator draws(5);
    const auto y = [&](bool training) {
      Generator own = draws;
      Context context{own, training};
      return linear.forward(x, {.norm = &norm, .residual = residual, .relu = relu, .dropout = 0.3}, context).value();
    };
    const Tensor beside = y(false);
    const Tensor dropped = y(true);
    linear.merge_updates();
    EXPECT_EQ(linear.parameters().size(), 2);
    EXPECT_LT(largest(y(false) - beside), 1e-5);
    EXPECT_LT(largest(y(true) - dropped), 1e-5);
  }
}

TEST(Adapters, AnUpdateOfAFrozenWeightCostsNoProductWithIt) {
  Generator init(1);
  Linear linear({}, 64, 192, init);
  linear.set_trainable(false);
  const auto operations = [&] {
    Tape tape;
    const Variable x = tape.watch(noise({50, 64}, 1));
    const Variable y = linear.forward(x);
    work::start();
    tape.backward({y}, {Tensor::full(y.shape(), 1)});
    return work::stop().flops;
  };
  const double product = 2.0 * 50 * 64 * 192;
  EXPECT_EQ(operations(), product);  // only dx
  linear.add_low_rank("update", 0, 64, {.rank = 2, .alpha = 8}, init);
  EXPECT_LT(operations(), 1.2 * product);
}

TEST(Adapters, OnlyWhatIsAddedLearnsWhereTheRestIsFrozen) {
  Generator init(1);
  Bert bert({}, adapted_bert(), init);
  bert.set_trainable(false);
  for (TransformerBlock& block : bert.blocks()) {
    block.adapt_attention(bottleneck(8, init));
    block.adapt_feed_forward(bottleneck(8, init));
  }
  add_adapter(bert, {.type = Peft::Type::lora}, init);
  const std::map<std::string, Tensor> state = bert.state();
  for (const auto& [name, tensor] : state) {
    if (name.ends_with(".lora_B.weight")) tensor.copy_(noise(tensor.shape(), 2) * 0.1);
  }
  Tape tape;
  Generator draws(5);
  Context context{draws, true};
  const Tensor ids = integers({3, 7}, 1, 11, draws);
  const Tensor labels = Tensor::from(std::vector<int64_t>{0, 1, 2}, {3});
  tape.backward(cross_entropy(bert.class_scores(bert.pool(bert.forward({ids}, context)), context), labels));
  int added = 0;
  for (const Parameter* parameter : bert.parameters()) {
    const bool is_added =
        parameter->name.find("_adapter.") != std::string::npos || parameter->name.find(".lora_") != std::string::npos;
    added += is_added ? 1 : 0;
    ASSERT_EQ(parameter->grad.defined(), is_added) << parameter->name;
    EXPECT_TRUE(!is_added || largest(parameter->grad) > 0) << parameter->name;
  }
  EXPECT_EQ(added, 2 * (2 * 4 + 2 * 2));
}

TEST(Adapters, SnnkAdaptersLeaveTheModelAsItIsAtFirst) {
  Generator init(1);
  Bert bert({}, adapted_bert(), init);
  const Tensor before = scores_of(bert);
  for (TransformerBlock& block : bert.blocks()) {
    block.adapt_attention(snnk_adapter(8, init));
    block.adapt_feed_forward(snnk_adapter(8, init));
  }
  EXPECT_LT(largest(scores_of(bert) - before), 1e-5);
  for (const auto& [name, tensor] : bert.state()) {
    if (name == "blocks.0.attention_adapter.gate") tensor.fill_(0.5);
  }
  EXPECT_GT(largest(scores_of(bert) - before), 1e-3);
}

TEST(Adapters, CountsAreThoseOfThePapers) {
  // One block of BERT-base, counted twelve times.
  BertOptions options{.vocabulary = 4, .length = 4, .layers = 1, .classes = 2};
  Generator init(1);
  Bert snnk({}, options, init);
  snnk.blocks()[0].adapt_attention(snnk_adapter(768, init));
  snnk.blocks()[0].adapt_feed_forward(snnk_adapter(768, init));
  EXPECT_EQ(12 * trained(snnk, "_adapter."), 12 * 2 * (768 * 16 + 768));  // SNNK Table 8: .3 million
  Bert houlsby({}, options, init);
  houlsby.blocks()[0].adapt_attention(bottleneck(768, init));
  houlsby.blocks()[0].adapt_feed_forward(bottleneck(768, init));
  EXPECT_NEAR(12 * static_cast<double>(trained(houlsby, "_adapter.")), 1.8e6, 0.05e6);  // the same table
  add_adapter(houlsby, {.type = Peft::Type::lora}, init);
  EXPECT_EQ(12 * trained(houlsby, ".lora_"), 294912);  // .3 million
  VitOptions of_images{.image = 16, .layers = 1, .classes = 10};
  Vit vit({}, of_images, init);
  add_adapter(vit, {.type = Peft::Type::snnk_adapter, .snnk = {.activation = "relu", .features = 16}}, init);
  EXPECT_EQ(12 * trained(vit, "_adapter."), 313344);  // SNNK Table 7: .3 million
}

TEST(Adapters, AFeedForwardNetworkIsReplacedByAnSnnkLayer) {
  Generator init(1);
  Bert bert({}, adapted_bert(), init);
  const int64_t before = bert.parameter_count();
  bert.blocks()[1].replace_feed_forward({.activation = "relu", .features = 4}, init);
  const Tensor scores = scores_of(bert);
  EXPECT_EQ(scores.shape(), (Shape{3, 3}));
  EXPECT_EQ(before - bert.parameter_count(), 16 * 8 + 16 - 16 * 4);  // the first matrix and its bias
  for (const auto& [name, tensor] : bert.state()) {
    EXPECT_FALSE(name.starts_with("blocks.1.feed_forward.")) << name;
  }
}

TEST(Adapters, BundledLayersGiveTheSameScores) {
  Generator init(1);
  Bert bert({}, adapted_bert(), init);
  EXPECT_FALSE(bert.bundle());
  bert.blocks()[1].replace_feed_forward({.activation = "relu", .features = 4}, init);
  bert.replace_pooler({.activation = "cos", .features = 6}, init);
  const Tensor before = scores_of(bert);
  const int64_t parameters = bert.parameter_count();
  EXPECT_TRUE(bert.bundle());
  EXPECT_LT(largest(scores_of(bert) - before), 1e-5 * largest(before));
  // A (16, 4), W2 (8, 16) -> W2 A (8, 4);  A (8, 6), W_c (3, 8) -> W_c A (3, 6)
  EXPECT_EQ(parameters - bert.parameter_count(), 16 * 4 + 8 * 16 - 8 * 4 + 8 * 6 + 3 * 8 - 3 * 6);
  EXPECT_EQ(bert.bundled_pooler()->outputs(), 3);
  EXPECT_FALSE(bert.bundle());
}

TEST(Adapters, ThePoolerIsReplacedByAnSnnkLayer) {
  Generator init(1);
  Bert bert({}, adapted_bert(), init);
  const std::map<std::string, Tensor> before = bert.state();
  const Tensor classifier = before.at("classifier.weight").clone();
  bert.replace_pooler({.activation = "cos", .features = 6}, init);
  EXPECT_EQ(scores_of(bert).shape(), (Shape{3, 3}));
  const std::map<std::string, Tensor> after = bert.state();
  EXPECT_FALSE(after.contains("pooler.weight") || after.contains("classifier.weight"));
  EXPECT_EQ(largest(after.at("snnk_pooler.classifier.weight") - classifier), 0);
  EXPECT_THROW(bert.replace_pooler({}, init), Error);
}

// PEFT would leave the pooler out; a ViT without a classifier is one of transformers.
TEST(Adapters, LoraOfAViTIsForPeftUnlessItsClassifierReadsAPooler) {
  const test::TemporaryFolder folder;
  const Peft peft{.type = Peft::Type::lora, .modules_to_save = {}};
  for (const int64_t classes : {0, 3}) {
    Generator init(1);
    Vit vit({},
            {.image = 4,
             .patch = 2,
             .layers = 1,
             .dim = 4,
             .hidden = 4,
             .attention = {.heads = 2},
             .pooler = true,
             .classes = classes},
            init);
    add_adapter(vit, peft, init);
    save_adapter(vit, peft, folder.path(), "base");
    const std::string type = classes == 0 ? "\"LORA\"" : "\"LORA_POOLED\"";
    EXPECT_NE(test::contents(folder / "adapter_config.json").find("\"peft_type\": " + type), std::string::npos);
    EXPECT_TRUE(read_peft(folder.path()).pooled);
  }
}

}  // namespace
}  // namespace bochner
