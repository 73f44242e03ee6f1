// Folders of adapters of a ViT: each type reproduces what it was saved with, under the names of transformers 5 or
// older.
#include <gtest/gtest.h>

#include "layers/models/hugging_face.h"
#include "layers/models/peft.h"
#include "tests/layers/models/pretrained.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::difference;
using test::TemporaryFolder;

VitOptions small_vit(bool pooler) {
  VitOptions options{.image = 4, .patch = 2, .layers = 2, .dim = 8, .hidden = 12};
  options.attention.heads = 2;
  options.deviation = 0.3;
  options.pooler = pooler;
  options.classes = 3;
  return options;
}

TEST(PeftOfVit, TakesEachTypeWithAndWithoutAPooler) {
  const TemporaryFolder folder;
  const SnnkOptions cos{.activation = "cos", .features = 6, .scale_inputs = true, .damped = true};
  const std::vector<std::pair<bool, Peft>> types = {
      {false, {.type = Peft::Type::lora, .low_rank = {.rank = 3, .alpha = 6}, .targets = {"query", "output.dense"}}},
      {true, {.type = Peft::Type::lora, .low_rank = {.rank = 3, .alpha = 6}, .targets = {"query", "pooler.dense"}}},
      {true, {.type = Peft::Type::bottleneck, .bottleneck = {.size = 4}}},
      {false, {.type = Peft::Type::snnk_adapter, .snnk = cos}},
      {true, {.type = Peft::Type::snnk_adapter, .snnk = cos}},
      {true, {.type = Peft::Type::snnk_pooler, .snnk = cos, .modules_to_save = {}}},
      {true, {.type = Peft::Type::snnk_bundle, .snnk = cos, .modules_to_save = {}}}};
  Generator noise(3);
  const Tensor pixels = normal({2, 3, 4, 4}, noise);
  for (const auto& [pooler, peft] : types) {
    const auto made = [&, pooler = pooler, &peft = peft](uint64_t seed) {  // clang 14 captures no bindings by default
      Generator trunk(1), init(seed);
      auto vit = std::make_unique<Vit>(Slot{}, small_vit(pooler), trunk);
      add_adapter(*vit, peft, init);
      return vit;
    };
    const auto scores = [&](const Vit& vit) {
      Context context{noise, false};
      return vit.class_scores(vit.pool(vit.forward(pixels, context)), context).value();
    };
    const std::unique_ptr<Vit> first = made(4);
    std::set<std::string> of_base;
    Generator trunk(1);
    for (const auto& [name, tensor] : Vit({}, small_vit(pooler), trunk).state()) of_base.insert(name);
    for (const auto& [name, tensor] : first->state()) {
      if (!of_base.contains(name) || name.starts_with("classifier.")) tensor.copy_(normal(tensor.shape(), noise) * 0.3);
    }
    save_adapter(*first, peft, folder / "saved", "base");
    const Peft read = read_peft(folder / "saved");
    EXPECT_EQ(read.classes, 3);
    EXPECT_EQ(read.pooled, pooler);
    const std::unique_ptr<Vit> second = made(5);
    EXPECT_GT(difference(scores(*first), scores(*second)), 1e-3);
    load_adapter(*second, read, folder / "saved");
    EXPECT_EQ(difference(scores(*first), scores(*second)), 0);
    if (peft.type != Peft::Type::lora) {
      EXPECT_THROW(save_pretrained(*second, folder / "merged"), Error);
      continue;
    }
    json config = json::parse(test::contents(folder / "saved/adapter_config.json"));
    EXPECT_EQ(config["peft_type"], pooler ? "LORA_POOLED" : "LORA");  // PEFT would leave the pooler out
    config["peft_type"] = "LORA";                                     // as in older files
    test::put(folder / "saved/adapter_config.json", config.dump());
    EXPECT_EQ(read_peft(folder / "saved").pooled, pooler);
    if (pooler) continue;
    const TensorMap files = read_safetensors(folder / "saved/adapter_model.safetensors").tensors;
    EXPECT_TRUE(files.contains("base_model.model.vit.layers.1.attention.q_proj.lora_A.weight"));
    merge_adapter(*second);
    EXPECT_LT(difference(scores(*first), scores(*second)), 1e-5);
    save_pretrained(*second, folder / "merged");
    Generator init(6);
    Vit third({}, read_vit_options(folder / "merged"), init);
    (void)load_pretrained(third, folder / "merged");
    EXPECT_EQ(difference(scores(*second), scores(third)), 0);
  }
}

const std::vector<std::pair<std::string, std::string>> kOlderNames = {{"vit.layers.", "vit.encoder.layer."},
                                                                      {"attention.q_proj", "attention.attention.query"},
                                                                      {"attention.k_proj", "attention.attention.key"},
                                                                      {"attention.v_proj", "attention.attention.value"},
                                                                      {"attention.o_proj", "attention.output.dense"},
                                                                      {"mlp.fc1", "intermediate.dense"},
                                                                      {"mlp.fc2", "output.dense"}};

// transformers 5 names the modules of a ViT differently from its files and older versions. Either opens.
TEST(PeftOfVit, TakesLoraUnderTheNamesOfBothVersionsOfTransformers) {
  const TemporaryFolder folder;
  const auto made = [&](const Peft& peft, uint64_t seed) {
    Generator trunk(1), init(seed);
    auto vit = std::make_unique<Vit>(Slot{}, small_vit(false), trunk);
    add_adapter(*vit, peft, init);
    return vit;
  };
  const auto loads = [&](const std::vector<std::string>& targets, const TensorMap& tensors) {
    json config = json::parse(test::contents(folder / "saved/adapter_config.json"));
    config["target_modules"] = targets;
    std::filesystem::create_directories(folder / "other");
    test::put(folder / "other/adapter_config.json", config.dump());
    write_safetensors(folder / "other/adapter_model.safetensors", tensors);
    const Peft peft = read_peft(folder / "other");
    return load_adapter(*made(peft, 5), peft, folder / "other");
  };
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> cases = {
      {{"query", "value"}, {"q_proj", "v_proj"}},
      {{"key", "output.dense"}, {"fc2", "k_proj", "o_proj"}},
      {{"1.intermediate.dense"}, {"vit.layers.1.mlp.fc1"}},
      {{"dense"}, {"fc1", "fc2", "o_proj"}},
  };
  for (const auto& [before, now] : cases) {
    const Peft peft{.type = Peft::Type::lora, .low_rank = {.rank = 2, .alpha = 2}, .targets = before};
    save_adapter(*made(peft, 4), peft, folder / "saved", "base");
    const json config = json::parse(test::contents(folder / "saved/adapter_config.json"));
    EXPECT_EQ(config["target_modules"], json(now));
    const TensorMap written = read_safetensors(folder / "saved/adapter_model.safetensors").tensors;
    TensorMap older;
    for (const auto& [name, tensor] : written) {
      std::string spelled = name;
      for (const auto& [from, to] : kOlderNames) {
        if (const size_t at = spelled.find(from); at != std::string::npos) spelled.replace(at, from.size(), to);
      }
      older[spelled] = tensor;
    }
    const std::vector<std::string> all = loads(now, written);
    EXPECT_EQ(all.size(), written.size());
    EXPECT_EQ(loads(before, older), all);
  }
}

}  // namespace
}  // namespace bochner
