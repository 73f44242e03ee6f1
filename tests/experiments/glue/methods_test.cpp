// Which options each method of --model.method reads: others are refused on the command line.
#include <gtest/gtest.h>

#include "engine/ops/binary.h"
#include "experiments/learners/adaptation/adapted.h"
#include "experiments/learners/adaptation/config.h"
#include "layers/models/bert.h"
#include "tests/experiments/glue/glue.h"

namespace bochner {
namespace {

using test::Ended;
using Glue = test::Glue;

/// Everything that a method makes of a BERT: its tensors, what it computes after all parameters have moved, and which
/// parameters are trained.
std::vector<double> made_by(const AdaptationConfig& config) {
  BertOptions options{.vocabulary = 9, .length = 8, .layers = 2, .dim = 8, .hidden = 16};
  options.attention.heads = 2;
  options.pooler = true;
  options.classes = 2;
  options.deviation = 0.3;
  Generator init(1);
  Bert bert({}, options, init);
  adapt(bert, config, {}, init, [](const std::string&) {});
  std::vector<double> all;
  const auto add = [&](const Tensor& tensor) {
    for (const double x : tensor.cast(DType::f64).to_vector<double>()) all.push_back(x);
  };
  for (const auto& [name, tensor] : bert.state()) add(tensor);
  for (const GroupRule& rule : rules_of(method_of(config), config, bert)) {
    all.insert(all.end(), {static_cast<double>(rule.pattern.size()), rule.frozen ? 1.0 : 0.0});
  }
  for (Parameter* parameter : bert.parameters()) add_(parameter->value, Tensor::full(parameter->value.shape(), 0.1));
  Generator noise(1);
  Context context{noise, false};
  Generator draws(2);
  const Variable states = bert.forward({integers({3, 8}, 0, 9, draws), {}, {}}, context);
  add(bert.class_scores(bert.pool(states), context).value());
  return all;
}

/// The options that a method may read, without all the others that glue has.
struct Options {
  std::string adapter, attention;
  AdaptationConfig model;

  void fields(Fields& f) {
    f("adapter", adapter, "which conditions of the group read");
    f("attention", attention, "likewise");
    f.group("model", model);
  }
};

TEST(Methods, ReadTheOptionsThatTheyList) {
  const std::map<std::string, std::string> others = {
      {"activation", "sin"}, {"features", "4"}, {"orthogonal", "true"},      {"damped", "true"},
      {"top", "1"},          {"size", "3"},     {"size-activation", "relu"}, {"scale-inputs", "true"},
      {"rank", "2"},         {"alpha", "3"},    {"targets", "query,key"},    {"train-pooler", "true"}};
  const auto made = [](const std::string& method, const std::string& option, const std::string& value) {
    Options config;
    Fields fields = Fields::of(config);
    fields.at("model.method").assign(method);
    fields.at("model.activation").assign("cos");
    fields.at("model.top").assign("2");
    if (!option.empty()) fields.at("model." + option).assign(value);
    return made_by(config.model);
  };
  std::set<std::string> listed;
  for (const Method& method : methods()) {
    const std::vector<double> before = made(method.name, "", "");
    ASSERT_EQ(made(method.name, "", ""), before) << method.name;
    for (const auto& [option, value] : others) {
      const bool reads = std::find(method.reads.begin(), method.reads.end(), option) != method.reads.end();
      EXPECT_EQ(made(method.name, option, value) != before, reads) << method.name << ": " << option;
    }
    listed.insert(method.reads.begin(), method.reads.end());
  }
  for (const std::string& option : listed) {
    const bool needs_files = option == "ridge" || option == "new-pooler";
    EXPECT_TRUE(others.contains(option) || needs_files) << option << " is tried nowhere";
  }
}

TEST_F(Glue, ANewPoolerIsAsDrawnAndTheRestAsInTheFolder) {
  BertOptions options = read_bert_options(folder_ / "model");
  options.pooler = true;
  options.masked_tokens = false;
  options.next_sentence = false;
  options.classes = 2;
  for (const bool is_new : {false, true}) {
    Generator init(7);  // different from that of the folder's weights
    Bert bert({}, options, init);
    const std::vector<float> drawn = bert.pooler()->weight.value.to_vector<float>();
    AdaptationConfig config;
    config.method = "pooler";
    config.new_pooler = is_new;
    const Adapted adapted = adapt(bert, config, {folder_ / "model"}, init, [](const std::string&) {});
    EXPECT_EQ(bert.pooler()->weight.value.to_vector<float>() == drawn, is_new);
    EXPECT_EQ(adapted.base.tensors.contains("pooler.weight"), !is_new);
    EXPECT_TRUE(adapted.base.tensors.contains("blocks.0.norm1.weight"));
  }
}

TEST_F(Glue, AnOptionThatTheMethodDoesNotReadIsRefused) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& message) {
    const Ended ended = train(arguments);
    EXPECT_EQ(ended.code, 2) << message;
    EXPECT_EQ(ended.err, "error: --model." + message + ", and would change nothing here\n");
  };
  const std::string of_snnk = "snnk-adapter or snnk-pooler or bundle or uptrain";
  refused({"--model.features=16"}, "features: leave it out; it counts only with --model.method=" + of_snnk);
  refused({"--model.method=lora", "--model.top=3"}, "top: leave it out; it counts only with --model.method=uptrain");
  refused({"--preset=lora", "--model.size=3"},
          "size: leave it out; it counts only with --model.method=adapter or houlsby");
  refused({"--model.attention-blocks=0,1"},
          "attention-blocks: leave it out; it counts only with another --attention than softmax");
  refused({"--model.mechanism.sigma=2"},
          "mechanism.sigma: leave it out; it counts only with a value of --attention that "
          "has it, such as fastfood-rks");
  // What a run's own files say is not a mistake: they contain all options.
  ASSERT_EQ(train({"--preset=uptrain", "--model.top=1", "--model.features=4", "--out=up"}).code, 0);
  const Ended again = train({"--config=up/config.ini", "--model.method=lora", "--out=low"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(train({"--config=up/config.ini", "--out=up", "--resume"}).code, 0);
}

}  // namespace
}  // namespace bochner
