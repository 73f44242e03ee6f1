// The bert program: what it computes on a file of tensors, which equals transformers (tests/golden/bert.py), and what
// it refuses.
#include <gtest/gtest.h>

#include "engine/io/safetensors.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "tests/experiments/process.h"
#include "tests/layers/models/pretrained.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;

/// A folder with a model and its inputs, in.safetensors.
struct Model {
  explicit Model(const std::string& architecture) : golden(test::golden_model(architecture)) {
    for (const auto& [name, shape] : golden.at("inputs").items()) inputs[name] = test::input_of(golden, name);
    test::write_model(folder.path(), golden.at("config"), test::tensors_of(golden));
    write_inputs();
  }
  void write_inputs() const { write_safetensors(folder / "in.safetensors", inputs); }
  Ended run(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), {BOCHNER_BERT, "--pretrained=.", "--io=in.safetensors"});
    return Process(arguments, folder.path()).wait();
  }
  TensorMap outputs(const std::vector<std::string>& arguments = {}) const {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "in-bert.safetensors\n");
    return read_safetensors(folder / "in-bert.safetensors").tensors;
  }
  void expect_refused(const std::string& message, const std::vector<std::string>& arguments = {}) const {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(message), std::string::npos) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "in-bert.safetensors"));
  }

  TemporaryFolder folder;
  nlohmann::json golden;
  TensorMap inputs;
};

class BertProgram : public testing::TestWithParam<const char*> {};

TEST_P(BertProgram, GivesWhatTransformersGives) {
  const Model model(GetParam());
  const TensorMap found = model.outputs();
  const nlohmann::json& expected = model.golden.at("outputs");
  size_t states = 0;
  for (const auto& [name, values] : expected.items()) {
    if (name == "hidden_states") {
      for (; states < values.size(); ++states) {
        const std::string state = "hidden_states." + std::to_string(states);
        expect_near(found.at(state), values[states], 3e-5, state);
      }
    } else {
      expect_near(found.at(name), values, 3e-5, name);
    }
  }
  EXPECT_FALSE(found.contains("hidden_states." + std::to_string(states)));
}

INSTANTIATE_TEST_SUITE_P(Architectures, BertProgram,
                         testing::Values("BertModel", "BertForPreTraining", "BertForMaskedLM",
                                         "BertForSequenceClassification", "ViTModel", "ViTForImageClassification"));

TEST(BertProgramIo, GradientsOfAnOutputAreThoseOfEachTensorOfTheFile) {
  // The loss of tests/golden/bert.py is |x|^2 + the sum of the pooler's outputs.
  Model model("BertModel");
  model.inputs["dlast_hidden_state"] = model.outputs().at("last_hidden_state") * 2;
  model.inputs["dpooler_output"] = Tensor::full({3, 12}, 1);
  model.write_inputs();
  const TensorMap found = model.outputs();
  for (const auto& [name, expected] : model.golden.at("gradients").items()) {
    const double norm = std::sqrt(sum(square(found.at("d" + name))).item());
    const double rounding = name.find("key.bias") == std::string::npos ? 1e-4 * norm : 1e-4;  // its gradient is 0
    EXPECT_NEAR(norm, expected[1], rounding) << name;
  }
}

TEST(BertProgramIo, AnotherAttentionStandsInTheBlocksNamed) {
  const Model model("BertModel");
  const auto difference = [](const TensorMap& a, const TensorMap& b, const std::string& name) {
    return amax(abs(a.at(name) - b.at(name))).item();
  };
  const TensorMap plain = model.outputs();
  const TensorMap some = model.outputs({"--attention=performer", "--attention-blocks=1"});
  EXPECT_EQ(difference(plain, some, "hidden_states.1"), 0);
  EXPECT_GT(difference(plain, some, "hidden_states.2"), 1e-4);
  const TensorMap all = model.outputs({"--attention=performer", "--mechanism.features=16"});
  EXPECT_GT(difference(plain, all, "hidden_states.1"), 1e-4);
  std::filesystem::remove(model.folder / "in-bert.safetensors");
  model.expect_refused("there is no block 2; they are 0 to 1", {"--attention=performer", "--attention-blocks=2"});
  model.expect_refused("which transformers does not know", {"--attention=performer", "--to=mine"});
  model.expect_refused("--to=.: that folder holds files already", {"--to=."});
}

TEST(BertProgramIo, WhatIsExportedGivesTheSameAgain) {
  const Model model("BertForPreTraining");
  const TensorMap first = model.outputs();
  const Ended exported = Process({BOCHNER_BERT, "--pretrained=.", "--to=mine"}, model.folder.path()).wait();
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.out, "mine\n");
  std::filesystem::copy_file(model.folder / "in.safetensors", model.folder / "mine/in.safetensors");
  const Ended ended =
      Process({BOCHNER_BERT, "--pretrained=mine", "--io=in.safetensors", "--out=out.safetensors"}, model.folder.path())
          .wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  const TensorMap again = read_safetensors(model.folder / "out.safetensors").tensors;
  ASSERT_EQ(again.size(), first.size());
  for (const auto& [name, value] : first) EXPECT_EQ(amax(abs(again.at(name) - value)).item(), 0) << name;
}

TEST(BertProgramIo, AnAdapterIsAddedAndExported) {
  const nlohmann::json golden = bochner::golden("classifier", "lora.json");
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "adapter");
  nlohmann::json config = golden.at("config");
  config["id2label"] = {{"0", "c"}, {"1", "b"}, {"2", "a"}};
  test::write_model(folder.path(), config, test::tensors_of(golden));
  TensorMap added;
  for (const auto& [name, sizes] : golden.at("adapter_shapes").items())
    added[name] = test::filled(name, test::shape_of(sizes));
  write_safetensors(folder / "adapter/adapter_model.safetensors", added);
  test::put(folder / "adapter/adapter_config.json", golden.at("adapter_config").dump());
  TensorMap inputs;
  for (const auto& [name, value] : golden.at("inputs").items()) inputs[name] = test::input_of(golden, name);
  write_safetensors(folder / "in.safetensors", inputs);
  const auto logits = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {BOCHNER_BERT, "--io=in.safetensors", "--out=out.safetensors"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Ended ended = Process(command, folder.path()).wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err.find("random values"), std::string::npos) << ended.err;  // the adapter contains the classifier
    return read_safetensors(folder / "out.safetensors").tensors.at("logits");
  };
  const nlohmann::json& expected = golden.at("outputs").at("logits");
  TensorMap bare = test::tensors_of(golden);
  std::erase_if(bare, [](const auto& each) { return each.first.starts_with("classifier."); });
  std::filesystem::create_directories(folder / "bare");
  test::write_model(folder / "bare", config, bare);
  expect_near(logits({"--pretrained=bare", "--adapter=adapter"}), expected, 3e-5, "the adapter's classifier");
  expect_near(logits({"--pretrained=.", "--adapter=adapter", "--to=merged"}), expected, 3e-5, "adapter");
  expect_near(logits({"--pretrained=merged"}), expected, 3e-5, "merged");
  EXPECT_EQ(nlohmann::json::parse(test::contents(folder / "merged/config.json")).at("id2label"), config["id2label"]);
  // One tensor in two spellings: it is unclear which one counts.
  const std::string name = added.begin()->first;
  ASSERT_TRUE(name.starts_with("base_model.model.")) << name;
  added[name.substr(17)] = added.begin()->second;
  write_safetensors(folder / "adapter/adapter_model.safetensors", added);
  const Ended ended =
      Process({BOCHNER_BERT, "--io=in.safetensors", "--pretrained=.", "--adapter=adapter"}, folder.path()).wait();
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find("are one tensor, which can have only one value"), std::string::npos) << ended.err;
}

TEST(BertProgramIo, ClassesThatTheWeightsHaveNoBytesForAreRefused) {
  const Model model("BertForSequenceClassification");
  nlohmann::json config = model.golden.at("config");
  config.erase("id2label");
  config["num_labels"] = 1 << 24;
  test::put(model.folder / "config.json", config.dump());
  model.expect_refused("config.json: its sizes ask for at least ");
}

TEST(BertProgramIo, AClassifierOfOtherClassesIsNotMadeUp) {
  const Model model("BertForSequenceClassification");
  nlohmann::json config = model.golden.at("config");
  config.erase("id2label");
  config["num_labels"] = 7;
  test::put(model.folder / "config.json", config.dump());
  model.expect_refused("config.json has 7 classes, and classifier.weight another number of rows");
}

TEST(BertProgramIo, SaysWhatWasReadAndWhatWasNot) {
  const Model model("BertModel");
  TensorMap tensors = test::tensors_of(model.golden);
  tensors.erase("pooler.dense.bias");
  tensors["cls.predictions.bias"] = Tensor::zeros({13});
  test::write_model(model.folder.path(), model.golden.at("config"), tensors);
  const Ended ended = model.run();
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string expected = "38 tensors read; made new: pooler.dense.bias; left over: 'cls.predictions.bias'";
  EXPECT_NE((ended.out + ended.err).find(expected), std::string::npos) << ended.out << ended.err;
  const Ended quiet = model.run({"--quiet"});
  EXPECT_NE(quiet.err.find("warning: .: lacks pooler.dense.bias; these have random values"), std::string::npos)
      << quiet.err;
}

TEST(BertProgramIo, BadInputsAreRefusedByName) {
  Model model("BertModel");
  const TensorMap good = model.inputs;
  const auto refused_with = [&](const std::string& name, const Tensor& tensor, const std::string& message) {
    model.inputs = good;
    if (tensor.defined()) {
      model.inputs[name] = tensor;
    } else {
      model.inputs.erase(name);
    }
    model.write_inputs();
    model.expect_refused(message);
  };
  refused_with("input_ids", {}, "tensor 'input_ids' is missing");
  refused_with("input_ids", Tensor::zeros({3, 7}), "'input_ids' is");
  refused_with("input_ids", Tensor::full({3, 7}, 13, DType::i64), "13");
  refused_with("attention_mask", Tensor::full({3, 6}, 1, DType::i64), "mask must be (3, 7)");
  refused_with("token_type_ids", Tensor::full({3, 7}, 2, DType::i64), "2");
  refused_with("pixel_values", Tensor::zeros({1, 3, 6, 6}), "tensor 'pixel_values' is no input of this model");
  refused_with("dpooler_output", Tensor::zeros({3, 11}), "'dpooler_output' is (3, 11), but must be (3, 12)");
  model.inputs = good;
  model.write_inputs();
  test::put(model.folder / "config.json", R"({"model_type": "t5"})");
  model.expect_refused("model_type is 't5'; known here are bert and vit");
  const Ended nothing = Process({BOCHNER_BERT}, model.folder.path()).wait();
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("--pretrained=FOLDER"), std::string::npos) << nothing.err;
}

}  // namespace
}  // namespace bochner
