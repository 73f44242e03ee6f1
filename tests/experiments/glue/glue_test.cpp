// GLUE tasks through the program, trained for three steps by each method.
#include "tests/experiments/glue/glue.h"
#include "engine/io/safetensors.h"
#include "engine/ops/index.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::contents;
using test::Ended;
using test::Glue;
using test::Process;
using test::put;

TEST_F(Glue, EachMethodTrainsItsParameters) {
  constexpr int64_t kFull = (234 + 32 + 2 + 2) * 8 + 2 * (4 * 72 + 144 + 136 + 2 * 16) + 72 + 18;
  const std::vector<std::pair<std::string, int64_t>> methods = {
      {"full", kFull},
      {"linear-probe", 8 * 2 + 2},
      {"pooler", 8 * 2 + 2 + 72},
      {"bitfit", 8 + 2 * (24 + 8 + 8 + 16 + 8 + 8) + 8 + 18},
      {"lora", 2 * 2 * 8 * (8 + 8) + 18},
      {"adapter", 2 * (2 * 8 * 48 + 48 + 8) + 18},
      {"houlsby", 4 * (2 * 8 * 48 + 48 + 8) + 18},
      {"snnk-adapter", 4 * (8 * 16 + 8) + 18},
      {"snnk-pooler", 8 * 16 + 18},
      {"bundle", 16 * 2 + 2},
      {"uptrain", kFull - 144 + 16 * 16},
  };
  for (const auto& [method, parameters] : methods) {
    const Ended ended = fit(method, {"--out=" + method});
    ASSERT_EQ(ended.code, 0) << method << ended.err;
    const json record = results(method);
    EXPECT_EQ(record["steps"], 3) << method;
    EXPECT_EQ(record["parameters"], parameters) << method;
    EXPECT_EQ(record["model"]["method"], method);
    EXPECT_TRUE(record["metrics"]["test"].contains("accuracy")) << method;
    EXPECT_EQ(record["metrics"]["test"], record["metrics"]["valid"]) << method;
    EXPECT_EQ(record["baselines"]["majority class"]["accuracy"], 0.5) << method;
  }
  const json first = results("full");
  EXPECT_NE(first["remarks"].dump().find("learnt from 12 of the 2490 published rows"), std::string::npos);
  EXPECT_NE(first["remarks"].dump().find("also chose the model"), std::string::npos);
  EXPECT_NE(first["data"].dump().find("model.safetensors"), std::string::npos);
}

// What is added to a model is given bf16 by it, trained and bundled.
TEST_F(Glue, MethodsTrainInBf16) {
  for (const std::string method :
       {"full", "pooler", "bitfit", "lora", "adapter", "houlsby", "snnk-adapter", "snnk-pooler", "bundle", "uptrain"}) {
    const Ended ended = fit(method, {"--precision=bf16", "--out=" + method});
    EXPECT_EQ(ended.code, 0) << method << ended.err;
  }
}

TEST_F(Glue, ScoresAreLearntAsNumbers) {
  const std::filesystem::path sts = folder_ / "data/glue/STS-B";
  put(sts / "train.tsv", pairs("score", 12, {"0", "2.5", "5.000"}));
  put(sts / "dev.tsv", pairs("score", 6, {"1", "4.2"}));
  put(sts / "test.tsv", pairs("", 3, {}));
  const Ended trained = train({"--task=sts-b", "--out=s"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const json metrics = results("s")["metrics"]["test"];
  EXPECT_TRUE(metrics.contains("spearman") && metrics.contains("pearson")) << metrics;
  ASSERT_EQ(run({"--predict=s"}).code, 0);
  const std::string text = contents(folder_ / "s/STS-B.tsv");
  EXPECT_NE(text.find("\n2\t"), std::string::npos) << text;
  EXPECT_NO_THROW((void)std::stod(text.substr(text.find("\n2\t") + 3)));
}

TEST_F(Glue, NoBatchIsPaddedBeyondTheLongestThatIsAllowed) {
  const Ended ended = train({"--pad-to-multiple-of=100", "--out=padded"});  // the model has 32 positions
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(Glue, ARunIsContinuedAsIfItHadNotStopped) {
  const auto steps = [&](const char* count, const char* out, const char* more) {
    return train({"--steps=" + std::string(count), "--optim.schedule=constant", "--optim.evaluate-every=1",
                  "--out=" + std::string(out), more});
  };
  ASSERT_EQ(steps("4", "whole", "--seed=1").code, 0);
  ASSERT_EQ(steps("2", "parts", "--seed=1").code, 0);
  const Ended ended = steps("4", "parts", "--resume");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(results("whole")["metrics"], results("parts")["metrics"]);
}

TEST_F(Glue, WhatWasComputedWhenARunBeganIsNoDepartureFromItsProtocol) {
  const std::vector<std::string> command = {"--task=rte", "--batch=4", "--epochs=1", "--out=run"};
  ASSERT_EQ(run(command).code, 0);
  const nlohmann::json before = results("run")["overrides"];
  EXPECT_TRUE(before.contains("epochs") && !before.contains("steps")) << before;
  std::filesystem::remove(folder_ / "run/results.json");
  ASSERT_EQ(run({"--resume", "--out=run"}).code, 0);
  EXPECT_EQ(results("run")["overrides"], before);
}

TEST_F(Glue, CheckpointsHoldNoFrozenWeightsAndNeedTheSameFolder) {
  const auto steps = [&](const char* count, const char* out, const char* more) {
    return train({"--steps=" + std::string(count), "--model.method=lora", "--optim.schedule=constant",
                  "--optim.evaluate-every=1", "--out=" + std::string(out), more});
  };
  ASSERT_EQ(steps("4", "whole", "--seed=1").code, 0);
  ASSERT_EQ(steps("2", "parts", "--seed=1").code, 0);
  const Ended ended = steps("4", "parts", "--resume");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(results("whole")["metrics"], results("parts")["metrics"]);
  const TensorMap best = read_safetensors(folder_ / "whole/checkpoint-best").tensors;
  EXPECT_FALSE(best.contains("embeddings.tokens.weight") || best.contains("blocks.1.attention.qkv.weight"));
  EXPECT_TRUE(best.contains("blocks.1.attention.qkv.query.lora_A.weight") && best.contains("classifier.weight"));
  const Ended full = train({"--out=full"});
  ASSERT_EQ(full.code, 0);
  EXPECT_GT(std::filesystem::file_size(folder_ / "full/checkpoint-best"),
            2 * std::filesystem::file_size(folder_ / "whole/checkpoint-best"));
  // Weights of another run differ from those of the folder.
  ASSERT_EQ(train({"--model.method=linear-probe", "--init=full", "--out=after"}).code, 0);
  EXPECT_TRUE(read_safetensors(folder_ / "after/checkpoint-best").tensors.contains("embeddings.tokens.weight"));
  ASSERT_EQ(run({"--predict=after"}).code, 0);
  ASSERT_EQ(run({"--evaluate=whole"}).code, 0);
  const std::vector<std::string> begun = {"--model.method=lora", "--init=whole", "--steps=0", "--out=begun"};
  const Ended same = train(begun);
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.err.find("lacks"), std::string::npos) << same.err;
  EXPECT_EQ(results("begun")["metrics"]["test"], results("whole")["metrics"]["test"]);
  test::save_tiny_bert(folder_ / "model", {.vocabulary = 235});
  std::filesystem::remove_all(folder_ / "begun");
  const Ended other = train(begun);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("leaves out the weights of model/model.safetensors"), std::string::npos) << other.err;
  const Ended refused = run({"--evaluate=whole"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("its frozen weights are those of model/model.safetensors"), std::string::npos)
      << refused.err;
}

TEST_F(Glue, AdaptersStandBesideARunAndCanBeBegunWith) {
  for (const std::string method : {"lora", "adapter", "houlsby", "snnk-adapter", "snnk-pooler", "bundle"}) {
    const std::string run = "run-" + method;
    const Ended trained =
        fit(method, {"--optim.rate=0.01", "--out=" + run, method == "lora" ? "--model.rank=3" : "--seed=1"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    ASSERT_TRUE(std::filesystem::exists(folder_ / (run + "/adapter/adapter_model.safetensors"))) << method;
    const Ended measured = train({"--adapter=" + run + "/adapter", "--steps=0", "--seed=2", "--out=again-" + method});
    ASSERT_EQ(measured.code, 0) << measured.err;
    const json again = results("again-" + method);
    EXPECT_EQ(again["metrics"]["test"], results(run)["metrics"]["test"]) << method;
    EXPECT_EQ(again["model"]["method"], method);
    EXPECT_EQ(again["parameters"], results(run)["parameters"]) << method;
    EXPECT_NE(again["data"].dump().find("adapter_model.safetensors"), std::string::npos);
  }
  ASSERT_EQ(train({"--model.method=bitfit", "--out=bitfit"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bitfit/adapter"));
  const Ended other = train({"--adapter=run-lora/adapter", "--model.rank=4"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--model.rank=4: the adapter in run-lora/adapter has 3"), std::string::npos) << other.err;
  // A pooler that the pretrained model lacks belongs to the adapter.
  test::save_tiny_bert(folder_ / "bare", {.pooler = false});
  ASSERT_EQ(train({"--pretrained=bare", "--model.method=lora", "--out=run-bare"}).code, 0);
  ASSERT_EQ(train({"--pretrained=bare", "--adapter=run-bare/adapter", "--steps=0", "--seed=2", "--out=again"}).code, 0);
  EXPECT_EQ(results("again")["metrics"]["test"], results("run-bare")["metrics"]["test"]);
  // An adapter can be trained further, and the run can be continued.
  const auto steps = [&](const char* count, const char* out, const char* more) {
    return train({"--adapter=run-lora/adapter", "--steps=" + std::string(count), "--optim.schedule=constant",
                  "--optim.evaluate-every=1", "--out=" + std::string(out), more});
  };
  ASSERT_EQ(steps("4", "whole", "--seed=1").code, 0);
  ASSERT_EQ(steps("2", "parts", "--seed=1").code, 0);
  ASSERT_EQ(steps("4", "parts", "--resume").code, 0);
  EXPECT_EQ(results("whole")["metrics"], results("parts")["metrics"]);
}

TEST_F(Glue, RecordsTellWhatBundlingSaves) {
  for (const std::string method : {"snnk-pooler", "uptrain", "bundle", "lora"}) {
    ASSERT_EQ(fit(method, {"--out=" + method, method == "lora" ? "--model.rank=3" : "--model.features=4"}).code, 0);
    const json derived = results(method)["derived"];
    EXPECT_EQ(derived["trained-bytes"], 4 * results(method)["parameters"].get<int64_t>()) << method;
    EXPECT_GT(derived["milliseconds"], 0) << method;
    const bool bundled = method == "snnk-pooler" || method == "uptrain";
    ASSERT_EQ(derived.contains("bundled-bytes"), bundled) << derived;
    if (!bundled) continue;
    EXPECT_LT(derived["bundled-bytes"], derived["bytes"]) << method;
    EXPECT_LT(derived["bundled-trained-bytes"], derived["trained-bytes"]) << method;
    EXPECT_LT(derived["bundled-apart"], 1e-5) << method;
  }
}

TEST_F(Glue, TheClosedFormOfABundleIsLeastSquares) {
  const std::filesystem::path sts = folder_ / "data/glue/STS-B";
  const std::string rows = pairs("score", 12, {"0", "2.5", "5.000"});
  put(sts / "train.tsv", rows);
  put(sts / "dev.tsv", rows);
  put(sts / "test.tsv", pairs("", 3, {}));
  const auto loss = [&](const std::string& out, const std::string& ridge) {
    const Ended ended = train({"--task=sts-b", "--model.method=bundle", "--model.features=4", "--model.activation=cos",
                               "--steps=0", "--model.ridge=" + ridge, "--out=" + out});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return results(out)["metrics"]["test"]["loss"].get<double>();
  };
  const double variance = 12.5 / 3;  // for 0, 2.5 and 5: the least for a constant
  const double least = loss("least", "0");
  EXPECT_LT(least, variance - 0.01);
  EXPECT_NEAR(loss("heavy", "1e12"), variance, 1e-3);
  EXPECT_GT(loss("as it was", "-1"), variance);
  put(folder_ / "ridge.ini", "[model]\nmethod = lora\nridge = 0\n");
  const Ended refused = train({"--config=ridge.ini"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--model.ridge=0: only the method bundle has a closed form"), std::string::npos);
  EXPECT_EQ(train({"--model.method=bundle", "--model.ridge=0", "--out=classes"}).code, 0);
}

// Features of 32 batches are added to the sums at once; those of all batches must be included, each once.
TEST_F(Glue, TheClosedFormOfABundleIsThatOfAllBatches) {
  std::string rows = "index\tsentence1\tsentence2\tscore\n";
  for (int i = 0; i < 70; ++i)
    rows += fmt::format("{}\ta b \"c {}\t{}\t{}\n", i, i % 7, i % 3 == 0 ? "a" : "x y z", i % 6);
  put(folder_ / "data/glue/STS-B/train.tsv", rows);
  put(folder_ / "data/glue/STS-B/dev.tsv", rows);
  const auto loss = [&](const std::string& batch) {
    const Ended ended = train({"--task=sts-b", "--model.method=bundle", "--model.features=4", "--model.activation=cos",
                               "--steps=0", "--model.ridge=0.1", "--batch=" + batch, "--out=" + batch});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return results(batch)["metrics"]["test"]["loss"].get<double>();
  };
  EXPECT_NEAR(loss("1"), loss("70"), 1e-5);
}

TEST_F(Glue, TheMajorityIsThatOfTraining) {
  put(folder_ / "data/glue/RTE/train.tsv", pairs("label", 12, {"entailment", "entailment", "not_entailment"}));
  put(folder_ / "data/glue/RTE/dev.tsv",
      pairs("label", 8, {"not_entailment", "entailment", "not_entailment", "not_entailment"}));
  ASSERT_EQ(train({"--steps=0", "--out=a"}).code, 0);
  EXPECT_EQ(results("a")["baselines"]["majority class"]["accuracy"], 0.25);
}

TEST_F(Glue, AMechanismHasItsOptions) {
  const auto loss = [&](const std::string& out, const std::string& features) {
    const Ended ended = train({"--attention=performer", "--model.mechanism.features=" + features, "--out=" + out});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return results(out)["metrics"]["test"]["loss"].get<double>();
  };
  EXPECT_NE(loss("few", "2"), loss("many", "64"));
}

TEST_F(Glue, ARunBecomesAFolderOfTransformers) {
  for (const std::string method : {"full", "lora", "bitfit"}) {
    ASSERT_EQ(train({"--model.method=" + method, "--optim.rate=0.01", "--out=" + method}).code, 0);
    const Ended exported = run({"--export=" + method, "--to=model-" + method, "--data=nowhere"});
    ASSERT_EQ(exported.code, 0) << exported.err;
    EXPECT_EQ(exported.out, "model-" + method + "\n");
    const json config = json::parse(contents(folder_ / ("model-" + method + "/config.json")));
    EXPECT_EQ(config["architectures"], json({"BertForSequenceClassification"}));
    EXPECT_EQ(config["id2label"], json({{"0", "entailment"}, {"1", "not_entailment"}}));
    EXPECT_EQ(config["problem_type"], "single_label_classification");
    EXPECT_TRUE(std::filesystem::exists(folder_ / ("model-" + method + "/vocab.txt")));
    EXPECT_TRUE(std::filesystem::exists(folder_ / ("model-" + method + "/tokenizer_config.json")));
    // The exported model is the best one: measured again, it gives the same.
    const Ended measured =
        train({"--pretrained=model-" + method, "--steps=0", "--model.method=full", "--out=again-" + method});
    ASSERT_EQ(measured.code, 0) << measured.err;
    const json again = results("again-" + method)["metrics"]["test"];
    const json first = results(method)["metrics"]["test"];
    EXPECT_NEAR(again["loss"].get<double>(), first["loss"].get<double>(), 1e-5) << method;
    EXPECT_EQ(again["accuracy"], first["accuracy"]) << method;
  }
  ASSERT_EQ(train({"--model.method=snnk-adapter", "--out=snnk"}).code, 0);
  const Ended refused = run({"--export=snnk", "--to=model-snnk"});
  EXPECT_EQ(refused.code, 2);
  for (const char* told : {"adapter.gate, which transformers does not know", "is in the folder adapter of its run"})
    EXPECT_NE(refused.err.find(told), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model-snnk"));
  EXPECT_NE(run({"--export=full"}).err.find("--export: say --to=FOLDER"), std::string::npos);
  for (const char* to : {"model", "model-full", "lora"}) {  // the pretrained model, an exported one and a run
    EXPECT_NE(run({"--export=full", fmt::format("--to={}", to)}).err.find("that folder holds files already"),
              std::string::npos)
        << to;
  }
}

// The same model under the names of its classes, in the other order and in capitals.
TEST_F(Glue, ATunedModelMayHaveItsClassesInAnotherOrder) {
  ASSERT_EQ(train({"--optim.rate=0.01", "--out=a"}).code, 0);
  ASSERT_EQ(run({"--export=a", "--to=tuned"}).code, 0);
  const auto rename = [&](const std::vector<std::string>& names) {
    json config = json::parse(contents(folder_ / "tuned/config.json"));
    config["id2label"] = {{"0", names[0]}, {"1", names[1]}};
    put(folder_ / "tuned/config.json", config.dump());
  };
  const auto measured = [&](const std::string& out) {
    const Ended ended = train({"--pretrained=tuned", "--steps=0", "--out=" + out});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return results(out)["metrics"]["test"]["loss"].get<double>();
  };
  const double loss = measured("as it is");
  TensorMap tensors = read_safetensors(folder_ / "tuned/model.safetensors").tensors;
  for (const char* name : {"classifier.weight", "classifier.bias"}) {
    tensors[name] = take(tensors.at(name), Tensor::from<int64_t>({1, 0}, {2}));
  }
  write_safetensors(folder_ / "tuned/model.safetensors", tensors, {{"format", "pt"}});
  EXPECT_NE(measured("swapped"), loss);
  rename({"NOT_ENTAILMENT", "ENTAILMENT"});
  EXPECT_EQ(measured("by name"), loss);
  ASSERT_EQ(run({"--export=by name", "--to=again"}).code, 0);
  EXPECT_EQ(json::parse(contents(folder_ / "again/config.json"))["id2label"],
            json({{"0", "entailment"}, {"1", "not_entailment"}}));
  rename({"positive", "negative"});
  const Ended refused = train({"--pretrained=tuned", "--out=refused"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("classes 'positive', 'negative', asked for are 'entailment', 'not_entailment'"),
            std::string::npos)
      << refused.err;
}

TEST_F(Glue, WithoutADevelopmentSetTheLastRowsOfTrainingTakeItsPlace) {
  std::filesystem::remove(folder_ / "data/glue/RTE/dev.tsv");
  const Ended ended = train({"--out=a"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(results("a")["remarks"].dump().find("the last 1 rows of the training set"), std::string::npos);
}

TEST_F(Glue, StepsFollowFromEpochsWhereTheyAreNotGiven) {
  const Ended ended = run({"--task=rte", "--batch=5", "--epochs=2", "--optim.warmup=0.5", "--out=a"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string config = contents(folder_ / "a/config.ini");
  EXPECT_EQ(results("a")["steps"], 6);  // two epochs of 5, 5 and 2 rows
  EXPECT_NE(config.find("evaluate-every = 3\n"), std::string::npos) << config;
  const Ended both = run({"--task=rte", "--epochs=2", "--steps=3", "--out=b"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("without --steps"), std::string::npos) << both.err;
}

TEST_F(Glue, EveryPresetIsOneOfAMethod) {
  for (const auto& entry : std::filesystem::directory_iterator(BOCHNER_SOURCE_DIR "/experiments/glue/presets")) {
    const std::string file = entry.path().stem().string();
    const std::string name = file.substr(0, file.find('.'));
    const std::string task = name == file ? "mrpc" : file.substr(file.find('.') + 1);
    const Ended ended = run({"--preset=" + name, "--task=" + task, "--dump-config"});
    ASSERT_EQ(ended.code, 0) << file << ended.err;
    const std::map<std::string, std::string> others = {{"snnk-adapter-cosine", "snnk-adapter"},
                                                       {"snnk-pooler-tanh", "snnk-pooler"},
                                                       {"bundle-closed", "bundle"},
                                                       {"kl", "full"},
                                                       {"kl-scratch", "full"}};
    const std::string method = others.contains(name) ? others.at(name) : name;
    EXPECT_NE(ended.out.find("method = " + method + "\n"), std::string::npos) << ended.out;
  }
}

TEST_F(Glue, MistakesAreToldInOneLine) {
  const auto told = [&](const std::vector<std::string>& arguments, const std::string& text) {
    const Ended ended = train(arguments);
    EXPECT_EQ(ended.code, 2) << text;
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  };
  test::save_tiny_bert(folder_ / "smaller", {.vocabulary = 233});
  told({"--pretrained=smaller"}, "smaller: the tokenizer has 234 ids, the model 233 tokens");
  const Ended unnamed = Process({BOCHNER_GLUE, "--task=rte"}, folder_.path()).wait();
  EXPECT_NE(unnamed.err.find("--pretrained: name the folder of a model"), std::string::npos) << unnamed.err;
  told({"--max-length=33"}, "--max-length=33: the model has 32 positions");
  told({"--model.method=uptrain", "--model.top=3"}, "--model.top=3: the model has 2 blocks");
  told({"--partial=false"}, "RTE/train.tsv: 12 rows, the published file has 2490; to take it as it is, give --partial");
  told({"--task=wnli"}, "WNLI/train.tsv: is missing");
  told({"--task=ax"}, "--task: 'ax' has no training set; train with --task=mnli, and --predict of that run");
  told({"--task=rte,ax"}, "--task: 'ax' has no training set");
  put(folder_ / "config.ini", "");
  told({"--task=wnli", "--out=."}, ". holds a run already");
  put(folder_ / "data/glue/RTE/dev.tsv", pairs("label", 6, {"entailment", "neutral"}));
  told({}, "RTE/dev.tsv: row 3 column 4 ('label'): the label 'neutral' is none of entailment, not_entailment");
}

}  // namespace
}  // namespace bochner
