// Folders of adapters: those of PEFT open here with its outputs (tests/golden/lora.py), ours have the same names and
// shapes, each type reproduces what it was saved with, and what does not fit is refused.
#include "layers/models/peft.h"

#include <gtest/gtest.h>

#include <limits>

#include "layers/models/hugging_face.h"
#include "tests/layers/models/pretrained.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::difference;
using test::TemporaryFolder;

/// A model of tests/golden/lora.py, in `base`, and its adapter, in `adapter`.
class Golden {
 public:
  explicit Golden(const std::string& name) : golden(bochner::golden(name, "lora.json")) {
    std::filesystem::create_directories(folder / "base");
    std::filesystem::create_directories(folder / "adapter");
    test::write_model(folder / "base", golden.at("config"), test::tensors_of(golden));
    for (const auto& [key, sizes] : golden.at("adapter_shapes").items())
      tensors[key] = test::filled(key, test::shape_of(sizes)).cast(DType::f32);
    config = golden.at("adapter_config");
    write();
  }
  void write() const {
    test::put(folder / "adapter/adapter_config.json", config.dump());
    write_safetensors(folder / "adapter/adapter_model.safetensors", tensors);
  }
  std::unique_ptr<Bert> model(bool with_classes = true) const {
    BertOptions options = read_bert_options(folder / "base");
    if (!with_classes) options.classes = 0;
    Generator init(1);
    auto bert = std::make_unique<Bert>(Slot{}, options, init);
    load_pretrained(*bert, folder / "base");
    return bert;
  }
  std::unique_ptr<Bert> adapted() const {
    std::unique_ptr<Bert> bert = model();
    Generator init(2);
    const Peft peft = read_peft(folder / "adapter");
    add_adapter(*bert, peft, init);
    load_adapter(*bert, peft, folder / "adapter");
    return bert;
  }
  std::map<std::string, Tensor> outputs(const Bert& bert) const {
    Generator noise(1);
    Context context{noise, false};
    const Tensor mask = test::input_of(golden, "attention_mask").cast(DType::boolean);
    const Variable x = bert.forward({test::input_of(golden, "input_ids"), mask}, context);
    const Variable pooled = bert.pool(x);
    std::map<std::string, Tensor> found = {{"last_hidden_state", x.value()}, {"pooler_output", pooled.value()}};
    if (bert.options().classes > 0) found["logits"] = bert.class_scores(pooled, context).value();
    return found;
  }
  void expect_refused(const std::string& message) const {
    write();
    try {
      (void)adapted();
      ADD_FAILURE() << "taken, but expected: " << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }

  TemporaryFolder folder;
  json golden, config;
  TensorMap tensors;
};

class PeftGolden : public testing::TestWithParam<const char*> {};

TEST_P(PeftGolden, GivesWhatPeftGives) {
  const Golden golden(GetParam());
  const std::map<std::string, Tensor> found = golden.outputs(*golden.adapted());
  for (const auto& [name, values] : golden.golden.at("outputs").items())
    expect_near(found.at(name), values, 3e-5, name);
}

TEST_P(PeftGolden, MergedItGivesTheSameAndIsWrittenForTransformers) {
  const Golden golden(GetParam());
  const std::unique_ptr<Bert> bert = golden.adapted();
  EXPECT_THROW(save_pretrained(*bert, golden.folder / "merged"), Error);
  EXPECT_FALSE(std::filesystem::exists(golden.folder / "merged/model.safetensors"));
  merge_adapter(*bert);
  save_pretrained(*bert, golden.folder / "merged");
  Generator init(3);
  Bert merged({}, read_bert_options(golden.folder / "merged"), init);
  EXPECT_TRUE(load_pretrained(merged, golden.folder / "merged").made_new.empty());
  const std::map<std::string, Tensor> found = golden.outputs(merged);
  for (const auto& [name, values] : golden.golden.at("outputs").items())
    expect_near(found.at(name), values, 3e-5, name);
}

TEST_P(PeftGolden, OursHasTheNamesShapesAndSettingsOfPeft) {
  const Golden golden(GetParam());
  const std::unique_ptr<Bert> bert = golden.adapted();
  Peft peft = read_peft(golden.folder / "adapter");
  save_adapter(*bert, peft, golden.folder / "ours", "base");
  const TensorMap written = read_safetensors(golden.folder / "ours/adapter_model.safetensors").tensors;
  ASSERT_EQ(written.size(), golden.tensors.size());
  for (const auto& [name, tensor] : golden.tensors) {
    ASSERT_TRUE(written.contains(name)) << name;
    EXPECT_EQ(written.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(difference(written.at(name), tensor), 0) << name;
  }
  const json ours = json::parse(test::contents(golden.folder / "ours/adapter_config.json"));
  for (const auto& [name, value] : ours.items()) {
    if (name == "use_rslora" || name == "lora_alpha") continue;  // alpha / sqrt(r) is written as alpha sqrt(r) / r
    const json& theirs = golden.config.at(name);
    EXPECT_TRUE(theirs == value || (theirs.is_array() && theirs.size() == value.size())) << name << theirs << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PeftGolden, testing::Values("classifier", "dense"));

TEST(Peft, AnAdapterOfAModelWithoutHeadsFitsOneWithAClassifier) {
  Golden golden("dense");
  const std::map<std::string, Tensor> expected = golden.outputs(*golden.adapted());
  golden.golden.at("config")["architectures"] = {"BertForSequenceClassification"};
  test::write_model(golden.folder / "base", golden.golden.at("config"), test::tensors_of(golden.golden));
  EXPECT_LT(difference(golden.outputs(*golden.adapted()).at("pooler_output"), expected.at("pooler_output")), 1e-6);
}

TEST(Peft, MissingSurplusAndOtherTensorsAreNamed) {
  const std::string query = "base_model.model.bert.encoder.layer.1.attention.self.query.lora_B.weight";
  Golden golden("classifier");
  const Tensor kept = golden.tensors.at(query);
  golden.tensors.erase(query);
  golden.expect_refused("holds no tensor " + query);
  golden.tensors[query] = kept.slice(0, 0, 11).contiguous();
  golden.expect_refused("tensor " + query + " is f32 (11, 2), the model needs f32 (12, 2)");
  golden.tensors[query] = Tensor::full({12, 2}, std::numeric_limits<double>::infinity());
  golden.expect_refused("tensor '" + query);
  golden.tensors[query] = kept;
  golden.tensors["base_model.model.bert.encoder.layer.1.attention.self.key.lora_B.weight"] = kept;
  golden.expect_refused("self.key.lora_B.weight' is none of the adapter that adapter_config.json describes");
  golden.tensors.erase("base_model.model.bert.encoder.layer.1.attention.self.key.lora_B.weight");
  golden.tensors["base_model.model.bert.embeddings.word_embeddings.lora_embedding_B"] = kept;
  golden.expect_refused("lora_embedding_B' is an update of a matrix that can have none here; query, key and value");
  golden.tensors.erase("base_model.model.bert.embeddings.word_embeddings.lora_embedding_B");
  golden.tensors.erase("base_model.model.classifier.weight");
  golden.expect_refused("holds 'base_model.model.classifier.bias', but no 'base_model.model.classifier.weight'");
  std::filesystem::remove(golden.folder / "adapter/adapter_model.safetensors");
  EXPECT_THROW((void)read_peft(golden.folder / "adapter"), Error);
}

TEST(Peft, ARefusedFileLeavesTheModelAsItWas) {
  Golden golden("classifier");
  const std::unique_ptr<Bert> bert = golden.model();
  Generator init(2);
  const Peft peft = read_peft(golden.folder / "adapter");
  add_adapter(*bert, peft, init);
  const std::map<std::string, Tensor> before = golden.outputs(*bert);
  golden.tensors.erase(std::prev(golden.tensors.end()));
  golden.write();
  EXPECT_THROW((void)load_adapter(*bert, peft, golden.folder / "adapter"), Error);
  EXPECT_EQ(difference(golden.outputs(*bert).at("logits"), before.at("logits")), 0);
}

TEST(Peft, SettingsThatAreNotKnownAreRefused) {
  const std::vector<std::tuple<const char*, json, const char*>> refused = {
      {"use_dora", true, "use_dora is true"},
      {"rank_pattern", {{"query", 4}}, "rank_pattern is {\"query\":4}"},
      {"layers_to_transform", {1}, "layers_to_transform is [1]"},
      {"bias", "all", "bias is 'all'"},
      {"init_lora_weights", "pissa_niter_4",
       "init_lora_weights is 'pissa_niter_4', with which PEFT changes the weights"},
      {"init_lora_weights", "olora", "path_initial_model_for_weight_conversion"},
      {"init_lora_weights", "loftq", "init_lora_weights is 'loftq'"},
      {"init_lora_weights", "corda", "init_lora_weights is 'corda'"},
      {"init_lora_weights", "mine", "init_lora_weights is 'mine'; known here are true, false"},
      {"init_lora_weights", 3, "init_lora_weights is 3, no text"},
      {"r", 0, "r is 0"},
      {"r", 65536, "r is 65536, but in "},
      {"target_modules", "all-linear", "target_modules is \"all-linear\""},
      {"target_modules", {"query", "word_embeddings"}, "no matrix of the model is called 'word_embeddings'"},
      {"target_modules", {"classifier"}, "nothing would get an update: 'classifier' is within 'classifier'"},
      {"peft_type", "IA3", "peft_type is 'IA3'; known here are LORA"},
  };
  for (const auto& [name, value, message] : refused) {
    Golden golden("classifier");
    golden.config[name] = value;
    golden.expect_refused(message);
  }
}

TEST(Peft, AnUnknownTargetIsNotBlamedOnTheRank) {
  Golden golden("classifier");
  golden.config["target_modules"] = {"word_embeddings"};
  std::erase_if(golden.tensors, [](const auto& each) { return each.first.find(".lora_") != std::string::npos; });
  golden.expect_refused("adapter_config.json: no matrix of the model is called 'word_embeddings'; there are query");
}

TEST(Peft, OptionsOfSnnkLayersThatTheFolderDoesNotKeepAreRefused) {
  const Golden golden("classifier");
  for (const auto& [name, snnk] : {std::pair<const char*, SnnkOptions>{"order", {.features = 4, .order = 2}},
                                   {"bias_coordinate", {.features = 4, .bias_coordinate = true}},
                                   {"eta", {.activation = "cos", .features = 4, .eta = 2}}}) {
    const Peft peft{.type = Peft::Type::snnk_pooler, .snnk = snnk, .modules_to_save = {}};
    const std::unique_ptr<Bert> bert = golden.model();
    const std::string told = test::message_of([&] { save_adapter(*bert, peft, golden.folder / "saved", "base"); });
    EXPECT_NE(told.find(fmt::format("the option {} of the SNNK layer is not kept", name)), std::string::npos) << told;
  }
}

// An adapter_config.json of a few bytes must not make the program use up all memory.
TEST(Peft, SizesThatTheTensorsDoNotHaveAreRefusedBeforeAModelGetsThem) {
  const Golden golden("classifier");
  const std::vector<std::pair<Peft, std::string>> types = {
      {{.type = Peft::Type::lora, .low_rank = {.rank = 3, .alpha = 6}}, "r"},
      {{.type = Peft::Type::bottleneck, .bottleneck = {.size = 5}}, "size"},
      {{.type = Peft::Type::snnk_adapter, .snnk = {.activation = "relu", .features = 4}}, "features"},
      {{.type = Peft::Type::snnk_adapter, .snnk = {.activation = "tanh", .features = 4}}, "features"},
      {{.type = Peft::Type::snnk_pooler, .snnk = {.activation = "cos", .features = 6}, .modules_to_save = {}},
       "features"},
      {{.type = Peft::Type::snnk_bundle, .snnk = {.activation = "cos", .features = 6}, .modules_to_save = {}},
       "features"}};
  for (const auto& [peft, name] : types) {
    const std::unique_ptr<Bert> bert = golden.model();
    Generator init(4);
    add_adapter(*bert, peft, init);
    save_adapter(*bert, peft, golden.folder / "saved", "base");
    (void)read_peft(golden.folder / "saved");
    const std::filesystem::path path = golden.folder / "saved/adapter_config.json";
    json config = json::parse(test::contents(path));
    config[name] = 65536;
    test::put(path, config.dump());
    try {
      (void)read_peft(golden.folder / "saved");
      ADD_FAILURE() << name << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name + " is 65536, but in "), std::string::npos) << error.what();
    }
  }
}

TEST(Peft, WaysToBeginThatLeaveTheBaseModelAsItIsAreTaken) {
  Golden golden("classifier");
  const std::map<std::string, Tensor> expected = golden.outputs(*golden.adapted());
  for (const json& way : {json(true), json(false), json("gaussian"), json("eva"), json("orthogonal"), json()}) {
    golden.config["init_lora_weights"] = way;
    golden.write();
    EXPECT_EQ(difference(golden.outputs(*golden.adapted()).at("logits"), expected.at("logits")), 0) << way;
  }
}

TEST(Peft, EachTypeGivesAgainWhatItWasSavedWith) {
  const Golden golden("classifier");
  const SnnkOptions relu{.activation = "relu", .features = 4};
  const SnnkOptions cos{.activation = "cos", .features = 6, .scale_inputs = true, .damped = true};
  const std::vector<Peft> types = {
      {.type = Peft::Type::lora, .low_rank = {.rank = 3, .alpha = 6}, .targets = {"value", "intermediate.dense"}},
      {.type = Peft::Type::bottleneck, .bottleneck = {.size = 5, .activation = Activation::relu}, .both_halves = false},
      {.type = Peft::Type::bottleneck, .bottleneck = {.size = 4}},
      {.type = Peft::Type::snnk_adapter, .snnk = relu},
      {.type = Peft::Type::snnk_adapter, .snnk = {.activation = "tanh", .features = 12}},
      {.type = Peft::Type::snnk_adapter, .snnk = cos, .modules_to_save = {"classifier", "pooler"}},
      {.type = Peft::Type::snnk_pooler, .snnk = cos, .modules_to_save = {}},
      {.type = Peft::Type::snnk_bundle, .snnk = cos, .modules_to_save = {}}};
  for (const Peft& peft : types) {
    const auto made = [&](uint64_t seed) {
      std::unique_ptr<Bert> bert = golden.model();
      Generator init(seed);
      add_adapter(*bert, peft, init);
      return bert;
    };
    const std::unique_ptr<Bert> first = made(4);
    std::set<std::string> of_base;
    for (const auto& [name, tensor] : golden.model()->state()) of_base.insert(name);
    Generator noise(7);
    for (const auto& [name, tensor] : first->state()) {
      const bool is_saved = !of_base.contains(name) || name.starts_with("classifier.");
      if (is_saved && is_floating(tensor.dtype())) tensor.copy_(normal(tensor.shape(), noise) * 0.1);
    }
    save_adapter(*first, peft, golden.folder / "saved", "base");
    const Peft read = read_peft(golden.folder / "saved");
    EXPECT_EQ(read.classes, 3);
    std::unique_ptr<Bert> second = golden.model();
    Generator init(5);
    add_adapter(*second, read, init);
    EXPECT_GT(difference(golden.outputs(*first).at("logits"), golden.outputs(*second).at("logits")), 1e-3);
    load_adapter(*second, read, golden.folder / "saved");
    EXPECT_EQ(difference(golden.outputs(*first).at("logits"), golden.outputs(*second).at("logits")), 0);
    if (peft.type != Peft::Type::lora) {
      merge_adapter(*second);
      EXPECT_THROW(save_pretrained(*second, golden.folder / "merged"), Error);
    }
  }
}

}  // namespace
}  // namespace bochner
