// Folders of adapters in glue: what a run reads, uses and writes is a single adapter, and it belongs to its base.
#include <gtest/gtest.h>

#include "engine/io/safetensors.h"
#include "engine/ops/index.h"
#include "engine/ops/unary.h"
#include "layers/models/peft.h"
#include "tests/experiments/glue/glue.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::contents;
using test::Ended;
using test::Glue;
using test::Process;
using test::put;

class GlueAdapter : public Glue {
 protected:
  /// A tuned classifier, `tuned`, and the same in `turned`, with its classes in the other order.
  void tune() const {
    ASSERT_EQ(train({"--optim.rate=0.01", "--out=full"}).code, 0);
    ASSERT_EQ(run({"--export=full", "--to=tuned"}).code, 0);
    std::filesystem::copy(folder_ / "tuned", folder_ / "turned");
    json config = json::parse(contents(folder_ / "turned/config.json"));
    config["id2label"] = {{"0", "not_entailment"}, {"1", "entailment"}};
    put(folder_ / "turned/config.json", config.dump());
    TensorMap tensors = read_safetensors(folder_ / "turned/model.safetensors").tensors;
    for (const char* name : {"classifier.weight", "classifier.bias"}) tensors[name] = turned(tensors.at(name));
    write_safetensors(folder_ / "turned/model.safetensors", tensors, {{"format", "pt"}});
  }
  static Tensor turned(const Tensor& rows) { return take(rows, Tensor::from<int64_t>({1, 0}, {2})); }

  /// An adapter of `tuned` as another program would write it, with random values.
  void write(const std::string& name, const Peft& peft) const {
    Generator init(3);
    Bert bert({}, read_bert_options(folder_ / "tuned"), init);
    load_pretrained(bert, folder_ / "tuned");
    add_adapter(bert, peft, init);
    save_adapter(bert, peft, folder_ / name, "tuned");
    TensorMap tensors = read_safetensors(folder_ / name / "adapter_model.safetensors").tensors;
    for (auto& [key, tensor] : tensors) tensor = normal(tensor.shape(), init) * 0.3;
    write_safetensors(folder_ / name / "adapter_model.safetensors", tensors, {{"format", "pt"}});
  }
  TensorMap tensors(const std::string& name) const {
    return read_safetensors(folder_ / name / "adapter_model.safetensors").tensors;
  }
  json saved_modules(const std::string& name) const {
    return json::parse(contents(folder_ / name / "adapter_config.json"))["modules_to_save"];
  }
  double loss(const std::string& run) const { return results(run)["metrics"]["test"]["loss"].get<double>(); }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& message) const {
    const Ended ended = train(arguments);
    EXPECT_EQ(ended.code, 2) << message;
    EXPECT_NE(ended.err.find(message), std::string::npos) << ended.err;
  }
};

TEST_F(GlueAdapter, ClassesHaveTheOrderOfTheBase) {
  tune();
  const auto fitted = [&](const std::string& base, std::vector<std::string> more) {
    more.insert(more.begin(), {"--pretrained=" + base, "--optim.rate=0.01"});
    const Ended ended = train(more);
    EXPECT_EQ(ended.code, 0) << ended.err;
  };
  const std::map<std::string, std::string> methods = {
      {"lora", "classifier."}, {"bundle", "bert.bundle."}, {"snnk-pooler", "bert.snnk_pooler.classifier."}};
  for (const auto& [method, part] : methods) {
    fitted("tuned", {"--model.method=" + method, "--out=a-" + method});
    fitted("turned", {"--model.method=" + method, "--out=b-" + method});
    EXPECT_EQ(loss("a-" + method), loss("b-" + method));
    const TensorMap a = tensors("a-" + method + "/adapter");
    const TensorMap b = tensors("b-" + method + "/adapter");
    const std::string scores = "base_model.model." + part;
    ASSERT_TRUE(a.contains(scores + "weight"));
    for (const auto& [name, tensor] : a) {
      const Tensor expected = name == scores + "weight" || name == scores + "bias" ? turned(tensor) : tensor;
      EXPECT_EQ(b.at(name).to_vector<float>(), expected.to_vector<float>()) << name;
    }
    fitted("turned", {"--adapter=b-" + method + "/adapter", "--steps=0", "--out=again-" + method});
    EXPECT_EQ(loss("again-" + method), loss("b-" + method));
  }
}

TEST_F(GlueAdapter, NoneIsWrittenWhereInitHasChangedTheBase) {
  tune();
  const Ended ended = train({"--init=full", "--preset=lora", "--out=begun"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(
      ended.err.find("no folder `adapter` is written: --init=full has changed the frozen weights, and so it would "
                     "not belong to model; export that run, and name its folder with --pretrained"),
      std::string::npos)
      << ended.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "begun/adapter"));
  // A run that leaves the base unchanged changes nothing in it here, either.
  ASSERT_EQ(train({"--preset=lora", "--out=first"}).code, 0);
  ASSERT_EQ(train({"--init=first", "--preset=lora", "--out=second"}).code, 0);
  ASSERT_EQ(train({"--adapter=second/adapter", "--steps=0", "--out=again"}).code, 0);
  EXPECT_EQ(loss("again"), loss("second"));
  expect_refused(
      {"--init=full", "--preset=bundle-closed", "--out=closed"},
      "--init=full: would change the weights behind the closed form of --model.ridge=0; export that run, and "
      "name its folder with --pretrained instead");
}

TEST_F(GlueAdapter, NoneIsWrittenWhereOtherPartsOfTheModelAreNew) {
  for (const auto& [option, why] :
       {std::pair<std::string, std::string>{"--attention=performer",
                                            "where the attention performer may have drawn other values"},
        {"--model.from-scratch", "whose weights --model.from-scratch leaves out"}}) {
    const Ended ended = fit("lora", {option, "--out=run" + option});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.err.find("no folder `adapter` is written: it would not belong to model, " + why), std::string::npos)
        << ended.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / ("run" + option) / "adapter"));
  }
}

TEST_F(GlueAdapter, ItsSizesStandBeforeThoseOfAPreset) {
  ASSERT_EQ(train({"--preset=lora", "--model.rank=3", "--out=first"}).code, 0);
  const Ended again =
      train({"--preset=lora", "--adapter=first/adapter", "--model.targets=value,query", "--steps=0", "--out=again"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(results("again")["model"]["rank"], 3);
  EXPECT_EQ(loss("again"), loss("first"));
  expect_refused({"--adapter=first/adapter", "--model.rank=8"}, "--model.rank=8: the adapter in first/adapter has 3");
  expect_refused({"--adapter=first/adapter", "--model.targets=query"}, "--model.targets=query: the adapter");
  expect_refused({"--preset=houlsby", "--adapter=first/adapter"},
                 "--preset=houlsby: is of the method houlsby, but the adapter in first/adapter of lora; take a preset");
}

TEST_F(GlueAdapter, OneThatGivesAScoreIsExportedAsARegression) {
  for (const char* set : {"train", "dev"})
    put(folder_ / "data/glue/STS-B" / (set + std::string(".tsv")), pairs("score", 8, {"0", "2.5", "5.000"}));
  ASSERT_EQ(train({"--task=sts-b", "--preset=lora", "--out=scores"}).code, 0);
  const Ended ended =
      Process({BOCHNER_BERT, "--pretrained=model", "--adapter=scores/adapter", "--to=out"}, folder_.path()).wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(json::parse(contents(folder_ / "out/config.json"))["problem_type"], "regression");
}

TEST_F(GlueAdapter, APoolerThatIsTrainedWholeHasNoUpdate) {
  test::save_tiny_bert(folder_ / "bare", {.pooler = false});
  for (const std::string base : {"model", "bare"}) {
    const Ended ended = fit("lora", {"--model.targets=dense", "--model.train-pooler", "--optim.rate=0.01",
                                     "--pretrained=" + base, "--out=run-" + base});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const std::string adapter = "run-" + base + "/adapter";
    EXPECT_EQ(saved_modules(adapter), json({"classifier", "pooler"}));
    const TensorMap saved = tensors(adapter);
    EXPECT_TRUE(saved.contains("base_model.model.bert.pooler.dense.weight"));
    EXPECT_FALSE(saved.contains("base_model.model.bert.pooler.dense.lora_A.weight"));
    const Ended again = train({"--adapter=" + adapter, "--steps=0", "--pretrained=" + base, "--out=again-" + base});
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(loss("again-" + base), loss("run-" + base));
    EXPECT_EQ(
        Process({BOCHNER_BERT, "--pretrained=" + base, "--adapter=" + adapter, "--to=out-" + base}, folder_.path())
            .wait()
            .code,
        0);
  }
  ASSERT_EQ(fit("lora", {"--model.targets=dense", "--out=updated"}).code, 0);
  EXPECT_TRUE(tensors("updated/adapter").contains("base_model.model.bert.pooler.dense.lora_A.weight"));
  EXPECT_EQ(saved_modules("updated/adapter"), json({"classifier"}));
  expect_refused({"--model.method=lora", "--model.targets=dense", "--pretrained=bare"},
                 "--model.targets=dense: the pooler is new and can only be trained whole; add --model.train-pooler");
  expect_refused(
      {"--model.method=lora", "--model.targets=pooler.dense", "--model.train-pooler"},
      "adapter: nothing would get an update: 'pooler.dense' is within 'classifier', 'pooler', trained whole");
  expect_refused({"--adapter=updated/adapter", "--model.train-pooler"},
                 "--model.train-pooler: leave it out; the adapter in updated/adapter has an update of the pooler");
  expect_refused({"--adapter=updated/adapter", "--pretrained=bare"},
                 "updated/adapter: holds an update of the pooler, which bare lacks");
}

TEST_F(GlueAdapter, WhatItsFolderDescribesIsReadTrainedAndWritten) {
  tune();
  const std::vector<std::pair<std::string, Peft>> adapters = {
      {"whole", {.targets = {"dense"}, .modules_to_save = {"classifier", "pooler"}}},
      {"norms", {.targets = {"query"}, .modules_to_save = {"LayerNorm", "classifier"}}},
      {"scores", {.targets = {"query", "classifier"}, .modules_to_save = {}}}};
  for (const auto& [name, peft] : adapters) {
    write(name, peft);
    ASSERT_EQ(train({"--pretrained=tuned", "--adapter=" + name, "--steps=0", "--out=read-" + name}).code, 0);
    const TensorMap given = tensors(name);
    const TensorMap written = tensors("read-" + name + "/adapter");
    ASSERT_EQ(written.size(), given.size()) << name;
    for (const auto& [key, tensor] : given) EXPECT_EQ(written.at(key).to_vector<float>(), tensor.to_vector<float>());
    const Ended trained =
        train({"--pretrained=tuned", "--adapter=" + name, "--optim.rate=0.01", "--out=trained-" + name});
    ASSERT_EQ(trained.code, 0) << trained.err;
    const std::string adapter = "trained-" + name + "/adapter";
    const json saved = saved_modules(adapter);
    EXPECT_EQ(saved.is_null() ? json::array() : saved, json(peft.modules_to_save));
    ASSERT_EQ(train({"--pretrained=tuned", "--adapter=" + adapter, "--steps=0", "--out=again-" + name}).code, 0);
    EXPECT_EQ(loss("again-" + name), loss("trained-" + name));
    EXPECT_NE(loss("again-" + name), loss("read-" + name));
  }
  EXPECT_TRUE(tensors("trained-scores/adapter").contains("base_model.model.classifier.lora_B.weight"));
  EXPECT_TRUE(json::parse(contents(folder_ / "trained-scores/adapter/adapter_config.json"))["task_type"].is_null());
  // A module with an update is itself frozen.
  EXPECT_EQ(results("trained-scores")["parameters"], 2 * 8 * (8 + 8) + 8 * (8 + 2));
  expect_refused({"--adapter=scores"}, "scores: holds an update of the classifier, which model lacks");
}

}  // namespace
}  // namespace bochner
