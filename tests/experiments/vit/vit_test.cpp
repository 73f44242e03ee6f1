// Images through the program: tiny files of CIFAR-10 and a tiny ViT, written here, trained for three steps from new
// weights and by each method, continued and exported; and what batches contain.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "experiments/vit/problem.h"
#include "layers/models/hugging_face.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::TemporaryFolder;

constexpr int64_t kPixels = 3 * 32 * 32;

/// A folder with `model`, a ViT of 2 blocks with a pooler that expects images of 8 x 8, and `data/cifar10`.
class VitProgram : public ::testing::Test {
 protected:
  VitProgram() {
    save_model("model", {});
    std::filesystem::create_directories(folder_ / "data/cifar10");
    for (int i = 1; i <= 5; ++i) write_images(fmt::format("data_batch_{}.bin", i), 20);
    write_images("test_batch.first12.bin", 12);
  }

  void write_images(const std::string& name, int count, int label_of_last = -1) const {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      bytes += static_cast<char>(i == count - 1 && label_of_last >= 0 ? label_of_last : i % 10);
      for (int64_t k = 0; k < kPixels; ++k) bytes += static_cast<char>((7 * i + 3 * k) % 251);
    }
    write_file_atomically(folder_ / ("data/cifar10/" + name), bytes);
  }

  void save_model(const std::string& name, const std::function<void(VitOptions&)>& change) const {
    VitOptions options{.image = 8, .patch = 4, .layers = 2, .dim = 8, .hidden = 16};
    options.attention.heads = 2;
    options.deviation = 0.3;
    options.pooler = true;
    if (change) change(options);
    Generator init(1);
    Vit vit({}, options, init);
    save_pretrained(vit, folder_ / name);
  }

  Ended run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {BOCHNER_VIT, "--partial", "--threads=1"});
    return Process(arguments, folder_.path()).wait();
  }
  Ended train(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--steps=3", "--batch=4"});
    return run(arguments);
  }
  Ended adapt(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "--pretrained=model");
    return train(arguments);
  }
  /// The preset scratch, with a smaller model.
  Ended scratch(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--preset=scratch", "--model.layers=1", "--model.dim=8", "--model.heads=2",
                                         "--model.hidden=8", "--model.patch=8"});
    return train(arguments);
  }
  json results(const std::string& name) const { return json::parse(contents(folder_ / name / "results.json")); }

  TemporaryFolder folder_;
};

TEST_F(VitProgram, ANewModelIsTrainedContinuedBitForBitAndExportedAsAPretrainedOne) {
  const auto steps = [&](const char* count, const char* out, const char* more) {
    return scratch({"--steps=" + std::string(count), "--optim.schedule=constant", "--optim.warmup=2",
                    "--optim.evaluate-every=1", "--out=" + std::string(out), more});
  };
  ASSERT_EQ(steps("40", "whole", "--seed=1").code, 0);  // an epoch has 23 steps
  ASSERT_EQ(steps("11", "parts", "--seed=1").code, 0);
  const Ended ended = steps("40", "parts", "--resume");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(results("whole")["metrics"], results("parts")["metrics"]);
  const auto last = [&](const char* run) {
    return read_safetensors(folder_ / (run + std::string("/checkpoint-last"))).tensors;
  };
  const TensorMap parts = last("parts");
  for (const auto& [name, tensor] : last("whole")) {
    ASSERT_TRUE(parts.contains(name));
    EXPECT_EQ(amax(abs(tensor.cast(DType::f64) - parts.at(name).cast(DType::f64))).item(), 0) << name;
  }
  const json remarks = results("whole")["remarks"];
  EXPECT_NE(remarks.dump().find("only 100 of the 50000 published training images"), std::string::npos) << remarks;
  EXPECT_NE(remarks.dump().find("only 12 of the 10000 published test images"), std::string::npos);
  EXPECT_NE(contents(folder_ / "whole/report.html").find("only 12 of the 10000"), std::string::npos);

  const Ended exported = run({"--export=whole", "--to=small", "--data=nowhere"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.out, "small\n");
  EXPECT_NE(exported.err.find("the classifier is left out"), std::string::npos) << exported.err;
  const json config = json::parse(contents(folder_ / "small/config.json"));
  EXPECT_EQ(config["architectures"], json({"ViTModel"}));
  EXPECT_EQ(config["image_size"], 32);
  const json prepared = json::parse(contents(folder_ / "small/preprocessor_config.json"));
  EXPECT_EQ(prepared["size"], json({{"height", 32}, {"width", 32}}));
  const TensorMap weights = read_safetensors(folder_ / "small/model.safetensors").tensors;
  EXPECT_TRUE(weights.contains("pooler.dense.weight") && weights.contains("encoder.layer.0.intermediate.dense.bias"));
  EXPECT_FALSE(weights.contains("classifier.weight"));
  const Ended adapted = train({"--preset=snnk-adapter-pooler", "--pretrained=small", "--steps=3", "--out=adapted"});
  ASSERT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_NE(adapted.err.find("made new: classifier.bias"), std::string::npos) << adapted.err;
}

TEST_F(VitProgram, WithSomeOfTheClassesItSaysHowManyImagesAreTested) {
  const Ended ended = scratch({"--classes=airplane,cat", "--steps=1", "--out=two"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(results("two")["remarks"].back(), "of 10 classes only 2: airplane, cat; tested on 3 images");
  EXPECT_EQ(results("two")["test_examples"], 3);
  EXPECT_EQ(ended.err.find("tested on 12"), std::string::npos) << ended.err;
}

TEST_F(VitProgram, AClosedFormIsFittedToImagesAsTheyAre) {
  const auto fitted = [&](const std::string& out, const std::string& change) {
    const Ended ended =
        adapt({"--steps=0", "--model.method=bundle", "--model.pooler", "--model.ridge=1", change, "--out=" + out});
    EXPECT_EQ(ended.code, 0) << ended.err;
    std::map<std::string, std::vector<float>> values;
    for (const auto& [name, tensor] : read_safetensors(folder_ / out / "checkpoint-best").tensors) {
      if (tensor.dtype() == DType::f32) values[name] = tensor.to_vector<float>();
    }
    return values;
  };
  const auto plain = fitted("plain", "--seed=1");
  EXPECT_FALSE(plain.empty());
  EXPECT_EQ(fitted("flipped", "--flip"), plain);
  EXPECT_EQ(fitted("cropped", "--crop=4"), plain);
}

TEST_F(VitProgram, EachMethodTrainsItsParameters) {
  constexpr int64_t classifier = 8 * 10 + 10;
  struct Case {
    std::string method;
    bool pooler;
    int64_t parameters;
  };
  const std::vector<Case> cases = {
      {"full", false, 0},
      {"linear-probe", false, classifier},
      {"pooler", true, classifier + 72},
      {"bitfit", false, 8 + 2 * (24 + 8 + 8 + 16 + 8 + 8) + 8 + classifier},
      {"lora", false, 2 * 2 * 8 * (8 + 8) + classifier},
      {"adapter", false, 2 * (2 * 8 * 48 + 48 + 8) + classifier},
      {"houlsby", false, 4 * (2 * 8 * 48 + 48 + 8) + classifier},
      {"snnk-adapter", false, 4 * (8 * 16 + 8) + classifier},
      {"snnk-adapter", true, 4 * (8 * 16 + 8) + classifier},
      {"snnk-pooler", true, 8 * 16 + classifier},
      {"bundle", true, 16 * 10 + 10},
      {"uptrain", false, 0},
  };
  for (const auto& [method, pooler, parameters] : cases) {
    const std::string out = method + (pooler ? "-pooler" : "");
    std::vector<std::string> options = {"--model.method=" + method, pooler ? "--model.pooler" : "--model.pooler=off",
                                        "--out=" + out};
    if (method == "uptrain") options.emplace_back("--model.top=1");
    const Ended ended = adapt(options);
    ASSERT_EQ(ended.code, 0) << out << ended.err;
    const json record = results(out);
    EXPECT_TRUE(parameters == 0 || record["parameters"] == parameters) << out << record["parameters"];
    EXPECT_EQ(record["baselines"]["majority class"]["accuracy"].get<double>(), 2.0 / 12) << out;
    const json derived = record["derived"];
    EXPECT_EQ(derived["trained-bytes"], 4 * record["parameters"].get<int64_t>());
    EXPECT_GT(derived["milliseconds"], 0);
    const bool bundled = method == "snnk-pooler" || method == "uptrain";
    ASSERT_EQ(derived.contains("bundled-bytes"), bundled) << out << derived;
    if (bundled) {
      EXPECT_LT(derived["bundled-apart"], 1e-4) << out;
    }
    EXPECT_NE(record["data"].dump().find("model.safetensors"), std::string::npos);
    // What was added is stored next to the run, and gives the same.
    const bool adds = parameters > 0 && method != "linear-probe" && method != "pooler" && method != "bitfit";
    ASSERT_EQ(std::filesystem::exists(folder_ / (out + "/adapter")), adds) << out;
    if (!adds) continue;
    const Ended again = adapt({"--adapter=" + out + "/adapter", "--steps=0", "--seed=2", "--out=again-" + out});
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(results("again-" + out)["metrics"]["test"], record["metrics"]["test"]) << out;
    EXPECT_EQ(results("again-" + out)["parameters"], record["parameters"]) << out;
  }
}

TEST_F(VitProgram, AnotherMechanismTakesThePlaceOfSoftmaxInTheBlocksThatAreNamed) {
  const auto parameters = [&](const std::string& out, const std::vector<std::string>& options) {
    std::vector<std::string> all = {"--preset=full", "--model.pooler=off", "--out=" + out};
    all.insert(all.end(), options.begin(), options.end());
    const Ended ended = adapt(all);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return results(out)["parameters"].get<int64_t>();
  };
  const int64_t softmax = parameters("softmax", {});
  const int64_t one = parameters("one", {"--attention=gmm-prf", "--model.attention-blocks=1"});
  const int64_t both = parameters("both", {"--attention=gmm-prf"});
  EXPECT_GT(one, softmax);  // by a block's mixture
  EXPECT_EQ(both - softmax, 2 * (one - softmax));
  EXPECT_EQ(results("one")["model"]["attention"], "gmm-prf");
}

TEST_F(VitProgram, WithoutAPoolerARunBecomesAViTForImageClassification) {
  for (const std::string method : {"full", "lora"}) {
    ASSERT_EQ(
        adapt({"--model.method=" + method, "--classes=cat,dog,frog", "--optim.rate=0.01", "--out=" + method}).code, 0);
    const Ended exported = run({"--export=" + method, "--to=model-" + method, "--data=nowhere"});
    ASSERT_EQ(exported.code, 0) << exported.err;
    const json config = json::parse(contents(folder_ / ("model-" + method + "/config.json")));
    EXPECT_EQ(config["architectures"], json({"ViTForImageClassification"}));
    EXPECT_EQ(config["id2label"], json({{"0", "cat"}, {"1", "dog"}, {"2", "frog"}}));
    const Ended again =
        train({"--pretrained=model-" + method, "--classes=cat,dog,frog", "--steps=0", "--out=again-" + method});
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_NEAR(results("again-" + method)["metrics"]["test"]["loss"].get<double>(),
                results(method)["metrics"]["test"]["loss"].get<double>(), 1e-5);
    EXPECT_NE(results(method)["remarks"].dump().find("of 10 classes only 3: cat, dog, frog"), std::string::npos);
  }
  // An adapter has the classes in the order of its base, in whatever order they are requested.
  ASSERT_EQ(train({"--pretrained=model-full", "--classes=frog,cat,dog", "--model.method=lora", "--optim.rate=0.01",
                   "--out=turned"})
                .code,
            0);
  ASSERT_EQ(train({"--pretrained=model-full", "--classes=cat,dog,frog", "--adapter=turned/adapter", "--steps=0",
                   "--out=back"})
                .code,
            0);
  EXPECT_NEAR(results("back")["metrics"]["test"]["loss"].get<double>(),
              results("turned")["metrics"]["test"]["loss"].get<double>(), 1e-6);
  ASSERT_EQ(adapt({"--model.method=snnk-adapter", "--out=added"}).code, 0);
  const Ended refused = run({"--export=added", "--to=nothing"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("which transformers does not know"), std::string::npos) << refused.err;
}

TEST_F(VitProgram, EveryPresetTrainsAndIsOneOfAMethod) {
  for (const auto& entry : std::filesystem::directory_iterator(BOCHNER_SOURCE_DIR "/experiments/vit/presets")) {
    const std::string name = entry.path().stem().string();
    const Ended shown = run({"--preset=" + name, "--dump-config"});
    ASSERT_EQ(shown.code, 0) << name << shown.err;
    const std::map<std::string, std::string> others = {{"scratch", "full"}, {"snnk-adapter-pooler", "snnk-adapter"}};
    const std::string method = others.contains(name) ? others.at(name) : name;
    EXPECT_NE(shown.out.find("method = " + method + "\n"), std::string::npos) << shown.out;
    if (name == "scratch") continue;
    std::vector<std::string> smaller = {"--preset=" + name, "--out=" + name};
    if (name.starts_with("snnk") || name == "bundle" || name == "uptrain") smaller.emplace_back("--model.features=4");
    if (name == "uptrain") smaller.emplace_back("--model.top=2");
    const Ended ended = adapt(smaller);
    EXPECT_EQ(ended.code, 0) << name << ended.err;
  }
}

TEST_F(VitProgram, AFrozenTrunkRunsOnceOverImagesThatStayAsTheyAre) {
  const auto loss = [&](const std::string& preset, const std::string& more, bool once) {
    const std::string out = preset + more;
    const Ended ended = adapt({"--preset=" + preset, "--batch=20", "--steps=8", "--optim.evaluate-every=4",
                               "--out=" + out, more});  // an epoch has 4 steps
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err.find("train: the frozen trunk runs once over 80") != std::string::npos, once) << ended.err;
    EXPECT_NE(ended.err.find("valid: the frozen trunk runs once over 20"), std::string::npos) << ended.err;
    return results(out)["metrics"]["test"]["loss"].get<double>();
  };
  for (const char* preset : {"linear-probe", "pooler", "snnk-pooler", "bundle"}) {
    const double once = loss(preset, "--seed=1", true);
    EXPECT_NEAR(loss(preset, "--model.dropout=1e-9", false), once, 1e-6) << preset;  // this drops nothing
  }
  EXPECT_NE(loss("pooler", "--flip", false), results("pooler--seed=1")["metrics"]["test"]["loss"].get<double>());
  EXPECT_EQ(adapt({"--model.method=lora", "--out=lora"}).err.find("the frozen trunk"), std::string::npos);
}

TEST_F(VitProgram, ABlockOfTheSizeOfViTB16TrainsOnItsImages) {
  for (int i = 1; i <= 5; ++i) write_images(fmt::format("data_batch_{}.bin", i), 2);
  const Ended ended = run({"--model.image=224", "--model.patch=16", "--model.layers=1", "--model.dim=768",
                           "--model.heads=12", "--model.hidden=3072", "--batch=1", "--steps=1", "--out=b16"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  constexpr int64_t kBlock = 4 * 768 * 768 + 2 * 768 * 3072 + 3072 + 5 * 768 + 4 * 768;
  constexpr int64_t kAround = 3 * 16 * 16 * 768 + 768 + 768 + 197 * 768 + 2 * 768 + 768 * 10 + 10;
  EXPECT_EQ(results("b16")["parameters"], kBlock + kAround);
  EXPECT_TRUE(std::isfinite(results("b16")["metrics"]["test"]["loss"].get<double>()));
}

TEST_F(VitProgram, MistakesAreToldInOneLine) {
  const auto told = [&](const std::vector<std::string>& arguments, const std::string& text) {
    const Ended ended = train(arguments);
    EXPECT_EQ(ended.code, 2) << text;
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  };
  std::filesystem::create_directories(folder_ / "bert");
  put(folder_ / "bert/config.json", R"({"model_type": "bert"})");
  told({"--pretrained=bert"}, "bert: the model is of the type 'bert', not 'vit'");
  save_model("two", [](VitOptions& options) { options.channels = 2; });
  told({"--pretrained=two"}, "two: the model reads 2 channels");
  save_model("grey", [](VitOptions& options) { options.channels = 1; });
  told({"--pretrained=grey"}, "grey: the model reads one channel, and cifar10 has 3");
  save_model("bare", [](VitOptions& options) { options.pooler = false, options.classes = 10; });
  told({"--pretrained=bare", "--model.method=snnk-adapter", "--model.pooler"}, "bare: has no pooler");
  EXPECT_EQ(train({"--pretrained=bare", "--model.method=snnk-adapter", "--model.pooler", "--model.train-pooler"}).code,
            0);
  put(folder_ / "bare/preprocessor_config.json", R"({"size": 224})");
  told({"--pretrained=bare"}, "images of 224 pixels, but config.json beside it says image_size 8");
  told({"--pretrained=model", "--model.dim=9"}, "--model.dim=9: the model in model has 8; leave it out");
  const Ended of_preset = run({"--preset=scratch", "--pretrained=model", "--steps=1", "--batch=4", "--out=sized"});
  EXPECT_EQ(of_preset.code, 0) << of_preset.err;  // nobody requested the sizes of the preset
  told({"--pretrained=model", "--model.method=bundle"}, "--model.method=bundle: the model has no pooler");
  told({"--pretrained=model", "--model.method=uptrain", "--model.top=3"}, "--model.top=3: the model has 2 blocks");
  told({"--model.method=lora"}, "name the folder of a pretrained model with --pretrained");
  told({"--model.patch=5"}, "patches of 5 pixels do not divide an image of 32");
  told({"--classes=cat,fish"}, "there is no class 'fish'; there are airplane");
  told({"--each=9"}, "training images of airplane, not 9");
  told({"--partial=false"}, "data_batch_1.bin holds 20 of 10000 images");
  told({"--partial=false"}, "or take what is there with --partial\n");
  write_images("data_batch_3.bin", 20, 10);
  told({}, "record 20 has the class 10, outside 0 ... 9");
  write_images("data_batch_3.bin", 20);
  std::filesystem::remove(folder_ / "data/cifar10/test_batch.first12.bin");
  told({}, "test_batch.bin is missing");
}

TEST(ImageFeed, DependsOnSeedEpochAndNumberAlone) {
  const auto set = std::make_shared<images::Images>();
  for (int i = 0; i < 10; ++i) {
    set->labels.push_back(static_cast<uint8_t>(i));
    for (int64_t k = 0; k < kPixels; ++k) set->pixels.push_back(static_cast<uint8_t>(5 * i + k % 200));
  }
  const images::Preparation as_they_are{.side = 32};
  const images::Augmentation augmentation{.crop = 4, .flip = true};
  const auto feed = [&](int64_t batch, uint64_t seed) {
    return vit::ImageFeed(set, as_they_are, augmentation, {.batch = batch, .shuffle = true, .seed = seed});
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<float>> seen;  // (epoch, number) -> pixels
  vit::ImageFeed by_three = feed(3, 1);
  EXPECT_EQ(by_three.steps_per_epoch(), 4);
  for (int64_t step = 0; step < 8; ++step) {
    const Examples batch = by_three.next();
    EXPECT_EQ(batch.size(), step % 4 == 3 ? 1 : 3);
    for (int64_t i = 0; i < batch.size(); ++i) {
      const int64_t number = batch.numbers[static_cast<size_t>(i)];
      EXPECT_EQ(batch.at("labels").to_vector<int64_t>()[static_cast<size_t>(i)], number);
      seen[{step / 4, number}] = batch.at("pixels").slice(0, i, i + 1).contiguous().to_vector<float>();
    }
  }
  EXPECT_EQ(seen.size(), 20U);
  int changed = 0;
  for (int64_t number = 0; number < 10; ++number) changed += seen[{0, number}] != seen[{1, number}];
  EXPECT_GE(changed, 8);  // with 162 ways to change an image, the same one twice is rare
  vit::ImageFeed by_one = feed(1, 1);
  by_one.go_to(13);
  for (int64_t step = 13; step < 20; ++step) {
    const Examples batch = by_one.next();
    EXPECT_EQ(batch.at("pixels").to_vector<float>(), (seen[{1, batch.numbers[0]}]));
  }
  by_three.go_to(5);
  const std::vector<int64_t> numbers = by_three.next().numbers;
  by_three.go_to(5);
  EXPECT_EQ(by_three.next().numbers, numbers);
  EXPECT_NE(feed(10, 2).next().numbers, feed(10, 1).next().numbers);
}

}  // namespace
}  // namespace bochner
