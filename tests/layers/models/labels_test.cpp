// The names of classes in config.json, and the rows of a classifier, and of an adapter, that belong to them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/safetensors.h"
#include "layers/models/hugging_face.h"
#include "layers/models/peft.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;
using Values = std::vector<float>;

const Names kThreeWay = {"entailment", "neutral", "contradiction"};

/// The folder of a model with three classes, whose biases are 0, 1 and 2.
class Labels : public ::testing::Test {
 protected:
  Labels() {
    BertOptions options{.vocabulary = 7, .length = 5, .layers = 1, .dim = 4, .hidden = 4, .classes = 3};
    options.attention.heads = 2;
    Generator init(1);
    Bert bert({}, options, init);
    bert.state().at("classifier.bias").copy_(Tensor::from<float>({0, 1, 2}, {3}));
    weight_ = bert.state().at("classifier.weight").clone();
    save_pretrained(bert, folder_.path());
  }

  void name(const json& id2label) const { set("id2label", id2label); }
  void set(const char* key, const json& value) const {
    json config = json::parse(test::contents(folder_ / "config.json"));
    config[key] = value;
    test::put(folder_ / "config.json", config.dump());
  }

  /// The biases that a model with the classes `ours` reads from a folder with the classes `theirs`.
  Values read(const Names& theirs, const Names& ours) {
    json id2label = json::object();
    for (size_t i = 0; i < theirs.size(); ++i) id2label[std::to_string(i)] = theirs[i];
    name(id2label);
    BertOptions options = read_bert_options(folder_.path());
    EXPECT_EQ(options.labels, theirs);
    options.labels = ours;
    Generator init(2);
    Bert bert({}, options, init);
    const LoadedTensors loaded = load_pretrained(bert, folder_.path());
    Values bias = bert.state().at("classifier.bias").to_vector<float>();
    for (size_t i = 0; i < bias.size(); ++i) {  // a row of the weights is placed like its bias
      EXPECT_EQ(bert.state().at("classifier.weight").select(0, static_cast<int64_t>(i)).to_vector<float>(),
                weight_.select(0, static_cast<int64_t>(bias[i])).to_vector<float>());
    }
    const bool same = bias == Values{0, 1, 2};
    EXPECT_EQ(loaded.filled.contains("classifier.weight"), same);
    EXPECT_EQ(loaded.text().find("; classes there in the order ") == std::string::npos, same) << loaded.text();
    return bias;
  }

  /// A model with the classes `ours`, read from the folder.
  std::unique_ptr<Bert> model(const Names& ours) const {
    BertOptions options = read_bert_options(folder_.path());
    options.labels = ours;
    Generator init(2);
    auto bert = std::make_unique<Bert>(Slot{}, options, init);
    load_pretrained(*bert, folder_.path());
    return bert;
  }

  test::TemporaryFolder folder_;
  Tensor weight_;
};

TEST_F(Labels, RowsGoToTheClassOfTheirName) {
  EXPECT_EQ(read({"CONTRADICTION", "entailment", "Neutral"}, kThreeWay), (Values{1, 2, 0}));
  EXPECT_EQ(read({"Entailment", "neutral", "contradiction"}, kThreeWay), (Values{0, 1, 2}));
  EXPECT_EQ(read({"LABEL_2", "LABEL_0", "LABEL_1"}, {"0", "1", "2"}), (Values{1, 2, 0}));
}

TEST_F(Labels, TwoClassesOfOneNameKeepRowsOfTheirOwn) {
  EXPECT_EQ(read({"crane", "dog", "crane"}, {"crane", "dog", "crane"}), (Values{0, 1, 2}));
  EXPECT_EQ(read({"Crane", "dog", "crane"}, {"dog", "crane", "crane"}), (Values{1, 0, 2}));
}

TEST_F(Labels, RowsStayWhereEitherSideHasOnlyNumbers) {
  EXPECT_EQ(read({"LABEL_0", "LABEL_1", "LABEL_2"}, kThreeWay), (Values{0, 1, 2}));
  EXPECT_EQ(read({"bad", "so-so", "good"}, {"0", "1", "2"}), (Values{0, 1, 2}));
  EXPECT_EQ(read({"bad", "so-so", "good"}, {}), (Values{0, 1, 2}));
}

// PEFT reads an adapter together with its base, whose config.json names the rows.
TEST_F(Labels, AnAdapterHasTheRowsOfItsBase) {
  name({{"0", "contradiction"}, {"1", "entailment"}, {"2", "neutral"}});
  const auto made = [&](const Names& ours, const Peft& peft) {
    std::unique_ptr<Bert> bert = model(ours);
    Generator init(3);
    add_adapter(*bert, peft, init);
    return bert;
  };
  const auto scores = [](const Bert& bert) {
    Generator noise(1);
    Context context{noise, false};
    const Tensor ids = Tensor::from<int64_t>({1, 2, 3}, {1, 3});
    return bert.class_scores(bert.pool(bert.forward({ids, {}, {}}, context)), context).value().to_vector<float>();
  };
  const std::vector<Peft> types = {
      {.targets = {"query"}},
      {.targets = {"query", "classifier"}, .modules_to_save = {}},
      {.type = Peft::Type::snnk_pooler, .snnk = {.activation = "cos", .features = 4}, .modules_to_save = {}},
      {.type = Peft::Type::snnk_bundle, .snnk = {.activation = "cos", .features = 4}, .modules_to_save = {}}};
  for (const Peft& peft : types) {
    const std::unique_ptr<Bert> first = made(kThreeWay, peft);
    Generator noise(7);
    for (const auto& [name, tensor] : first->state()) {
      if (name.find("lora_B") != std::string::npos || name.starts_with("bundle."))
        tensor.copy_(normal(tensor.shape(), noise));
    }
    save_adapter(*first, peft, folder_ / "adapter", "base");
    const Values expected = scores(*first);
    const auto read = [&](const Names& ours) {
      const std::unique_ptr<Bert> again = made(ours, peft);
      load_adapter(*again, read_peft(folder_ / "adapter"), folder_ / "adapter");
      return scores(*again);
    };
    EXPECT_EQ(read(kThreeWay), expected);
    for (const Names& as_there : {Names{}, Names{"contradiction", "entailment", "neutral"}})
      EXPECT_EQ(read(as_there), (Values{expected[2], expected[0], expected[1]}));
    EXPECT_EQ(read({"neutral", "contradiction", "entailment"}), (Values{expected[1], expected[2], expected[0]}));
  }
}

// Also for a new classifier, the names in config.json are those of the rows that an adapter gives it.
TEST_F(Labels, AnAdapterOfABaseWithoutClassifierHasItsOrder) {
  TensorMap tensors = read_safetensors(folder_ / "model.safetensors").tensors;
  std::erase_if(tensors, [](const auto& each) { return each.first.starts_with("classifier."); });
  write_safetensors(folder_ / "model.safetensors", tensors);
  name({{"0", "contradiction"}, {"1", "entailment"}, {"2", "neutral"}});
  EXPECT_EQ(model(kThreeWay)->rows_in_folder(), (std::vector<int64_t>{1, 2, 0}));
  name({{"0", "bad"}, {"1", "so-so"}, {"2", "good"}});
  EXPECT_TRUE(model(kThreeWay)->rows_in_folder().empty());
}

TEST_F(Labels, WhatTheScoresMeanComesAlong) {
  for (const char* problem : {"multi_label_classification", "single_label_classification"}) {
    set("problem_type", problem);
    Generator init(2);
    Bert bert({}, read_bert_options(folder_.path()), init);
    save_pretrained(bert, folder_ / problem);
    EXPECT_EQ(json::parse(test::contents(folder_ / problem / "config.json"))["problem_type"], problem);
  }
  for (const std::string problem : {"", "multi_label_classification"}) {  // one class alone does not mean regression
    BertOptions options = read_bert_options(folder_.path());
    options.classes = 1;
    options.labels = {"toxic"};
    options.problem_type = problem;
    Generator init(2);
    save_pretrained(*std::make_unique<Bert>(Slot{}, options, init), folder_ / "one");
    EXPECT_EQ(json::parse(test::contents(folder_ / "one/config.json")).value("problem_type", ""), problem);
  }
  set("problem_type", "ranking");
  const std::string told = test::message_of([&] { read_bert_options(folder_.path()); });
  EXPECT_NE(told.find("config.json: problem_type is \"ranking\", which is not known here"), std::string::npos) << told;
}

TEST_F(Labels, OtherNamesAreRefusedWithBothLists) {
  const std::string told = test::message_of([&] { read({"bad", "so-so", "good"}, kThreeWay); });
  EXPECT_NE(told.find("the classes 'bad', 'so-so', 'good', asked for are 'entailment', 'neutral', 'contradiction'"),
            std::string::npos)
      << told;
  name(json::object());
  EXPECT_TRUE(pretrained_labels(folder_.path()).empty());
  const std::string none = test::message_of([&] { read_bert_options(folder_.path()); });
  EXPECT_NE(none.find("config.json: id2label is empty; a classifier without classes"), std::string::npos) << none;
  name({{"0", "a"}, {"1", "b"}, {"3", "c"}});
  const std::string gap = test::message_of([&] { read_bert_options(folder_.path()); });
  EXPECT_NE(gap.find("config.json: id2label has no name of the label 2"), std::string::npos) << gap;
}

}  // namespace
}  // namespace bochner
