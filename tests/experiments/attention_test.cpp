// The attention program: what it lists, which options it takes, and what it computes on a file of tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/io/safetensors.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/random.h"
#include "experiments/common/program/settings.h"
#include "experiments/learners/mechanism_config.h"
#include "tests/experiments/process.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;

Ended attention(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BOCHNER_ATTENTION);
  return Process(arguments, folder.path()).wait();
}

const std::vector<std::string> kNames = {"softmax",        "linear-elu",     "hedgehog",
                                         "performer",      "performer-trig", "performer-hyp",
                                         "performer-reg",  "performer-relu", "performer-sigmoid",
                                         "performer-exp",  "performer-abs",  "performer-gelu",
                                         "performer-cos",  "performer-tanh", "performer-identity",
                                         "performer-sgn",  "gmm-rks",        "gmm-prf",
                                         "fastfood-rks",   "fastfood-rks-s", "fastfood-rks-fixed",
                                         "fastfood-prf",   "fastfood-prf-s", "fastfood-prf-fixed",
                                         "generative-rks", "generative-prf", "gaussian",
                                         "skyformer",      "nystromformer",  "linformer",
                                         "informer",       "reformer",       "bigbird",
                                         "longformer",     "local",          "sparse",
                                         "sinkhorn",       "synthesizer",    "none"};

TensorMap inputs() {
  Generator generator(3);
  TensorMap map;
  for (const char* name : {"Q", "K", "V", "dO"}) map[name] = normal({2, 2, 9, 4}, generator, 0, 1, DType::f64);
  std::vector<float> mask(18, 1);
  for (size_t i = 14; i < 18; ++i) mask[i] = 0;
  map["mask"] = Tensor::from(mask, {2, 9});
  return map;
}

double difference(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item(); }

TEST(AttentionProgram, ListsEveryNameOnce) {
  const TemporaryFolder folder;
  const Ended ended = attention(folder, {"--list"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const std::string& name : kNames) EXPECT_NE(ended.out.find("\n" + name + " "), std::string::npos) << name;
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), static_cast<int64_t>(kNames.size()) + 1);
}

TEST(AttentionProgram, ShowsEquationAndOptionsOfEach) {
  const TemporaryFolder folder;
  for (const std::string& name : kNames) {
    const Ended ended = attention(folder, {"--show=" + name});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out.rfind(name + "\n  equation", 0), 0U) << ended.out;
  }
  const Ended skyformer = attention(folder, {"--show=skyformer"});
  EXPECT_NE(skyformer.out.find("--mechanism.exact-inverse=false"), std::string::npos) << skyformer.out;
}

struct Chosen {
  std::string attention = "softmax";
  MechanismConfig mechanism;
  void fields(Fields& f) {
    f("attention", attention, "attention mechanism");
    mechanism.fields(f);
  }
};

TEST(MechanismConfig, HasTheOptionsOfAllMechanismsEachOnce) {
  Chosen config;
  const Fields fields = Fields::of(config);
  std::set<std::string> expected = {"attention"};
  for (const MechanismInfo& info : mechanisms()) {
    for (const std::string& name : info.defaults().names()) expected.insert(name);
  }
  std::vector<std::string> names = fields.names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, std::vector<std::string>(expected.begin(), expected.end()));
  EXPECT_EQ(nlohmann::json::parse(fields.json()).at("kernel"), "gaussian");
  EXPECT_EQ(nlohmann::json::parse(fields.json()).at("features"), 128);
}

TEST(MechanismConfig, TellsEachMechanismWhatItReads) {
  Chosen options;
  const MechanismConfig& config = options.mechanism;
  Fields fields = Fields::of(options);
  fields.at("features").assign("24");
  fields.at("as").assign("released");
  const MechanismConfig copy = config;
  fields.at("features").assign("48");
  for (const MechanismInfo& info : mechanisms()) {
    const MechanismOptions chosen = config.chosen(info.name);
    const MechanismOptions before = copy.chosen(info.name);
    EXPECT_EQ(chosen.name(), info.name);
    for (const std::string& name : chosen.names()) {
      const std::string told = name == "features" ? "48" : name == "as" ? "released" : info.defaults().text(name);
      EXPECT_EQ(chosen.text(name), told) << info.name << ": " << name;
      EXPECT_EQ(before.text(name), name == "features" ? "24" : told) << info.name << ": " << name;
    }
  }
}

TEST(MechanismConfig, AnOptionCountsWhereTheChosenMechanismHasIt) {
  Chosen config;
  Fields fields = Fields::of(config);
  for (const MechanismInfo& info : mechanisms()) {
    fields.at("attention").assign(info.name);
    for (const Field& field : fields.all()) {
      if (field.name() == "attention") continue;
      ASSERT_FALSE(field.conditions().empty()) << field.name();
      MechanismOptions options = info.defaults();
      const bool counts = options.has(field.name()) && options.list().at(field.name()).counts();
      EXPECT_EQ(field.unmet() == nullptr, counts) << info.name << ": " << field.name();
    }
  }
  EXPECT_EQ(fields.at("components").conditions().front().text, "with --attention=gmm-rks or gmm-prf");
  EXPECT_EQ(fields.at("features").conditions().front().text,
            "with a value of --attention that has it, such as performer");
}

TEST(MechanismConfig, AnOptionCountsBesideValuesOfOthersThatLeaveItInUse) {
  Chosen config;
  Fields fields = Fields::of(config);
  assign_arguments(fields, std::vector<std::string>{"--attention=gmm-rks", "--as=released", "--smoothing=0.36"});
  const auto refused = [](const std::vector<std::string>& arguments) {
    Chosen chosen;
    Fields all = Fields::of(chosen);
    return test::message_of([&] { assign_arguments(all, arguments); });
  };
  const std::string why =
      ": leave it out; it counts only where the mechanism's other options leave it in use, and "
      "would change nothing here";
  EXPECT_EQ(refused({"--attention=gmm-rks", "--smoothing=0.36"}), "--smoothing" + why);
  EXPECT_EQ(refused({"--attention=performer", "--as=released", "--features=64"}), "--features" + why);
  EXPECT_EQ(refused({"--attention=performer,skyformer", "--as=released", "--features=64"}), "no error");
}

// One command may compare several mechanisms, each with its own options.
TEST(AttentionProgram, TakesAnOptionThatOneOfItsMechanismsHas) {
  const TemporaryFolder folder;
  write_safetensors(folder / "in.safetensors", inputs());
  const auto run = [&](const std::string& names) {
    return attention(folder, {"--io=in.safetensors", "--attention=" + names, "--mechanism.hashes=2", "--quiet"});
  };
  EXPECT_EQ(run("softmax,reformer").code, 0);
  EXPECT_EQ(run("reformer").code, 0);
  for (const std::string names : {"softmax", "softmax,performer"}) {
    const Ended ended = run(names);
    EXPECT_EQ(ended.code, 2) << names;
    EXPECT_EQ(ended.err,
              "error: --mechanism.hashes: leave it out; it counts only with --attention=reformer, and would change "
              "nothing here\n");
  }
  EXPECT_EQ(attention(folder, {"--show=reformer", "--mechanism.hashes=2"}).code, 0);
}

// What no mechanism of this program reads is refused by name.
TEST(AttentionProgram, RefusesWhatItDoesNotRead) {
  const TemporaryFolder folder;
  write_safetensors(folder / "in.safetensors", inputs());
  for (const std::string option : {"--mechanism.redraw=5", "--mechanism.redraw-in-evaluation", "--data=elsewhere",
                                   "--device=cpu", "--precision=bf16", "--graphs=false", "--debug-sync", "--steps=3"}) {
    const Ended ended = attention(folder, {"--io=in.safetensors", "--attention=performer", option});
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find(option.substr(0, option.find('=')) + ": leave it out"), std::string::npos) << ended.err;
  }
  EXPECT_EQ(attention(folder, {"--show=performer", "--mechanism.redraw=5"}).code, 0);
}

TEST(AttentionProgram, TheMatrixTimesTheValuesIsTheOutput) {
  const TemporaryFolder folder;
  const TensorMap given = inputs();
  write_safetensors(folder / "in.safetensors", given);
  for (const std::string& name : kNames) {
    std::vector<std::string> arguments = {"--io=in.safetensors", "--matrix", "--quiet", "--attention=" + name};
    for (const auto& [option, value] : {std::pair{"features", 8}, std::pair{"block", 3}, std::pair{"summary", 1}}) {
      MechanismOptions options(name);
      if (options.has(option) && options.list().at(option).counts()) {
        arguments.push_back(fmt::format("--mechanism.{}={}", option, value));
      }
    }
    const Ended ended = attention(folder, arguments);
    ASSERT_EQ(ended.code, 0) << name << ": " << ended.err;
    EXPECT_EQ(ended.out, "in-" + name + ".safetensors\n");
    const TensorMap found = read_safetensors(folder / ("in-" + name + ".safetensors")).tensors;
    EXPECT_EQ(found.at("A").shape(), Shape({2, 2, 9, 9})) << name;
    EXPECT_LT(difference(matmul(found.at("A"), given.at("V")), found.at("O")), 1e-9) << name;
    // dV = A^T dO, whatever the mechanism
    EXPECT_LT(difference(matmul(found.at("A").transpose(-2, -1), given.at("dO")), found.at("dV")), 1e-9) << name;
    EXPECT_EQ(found.at("dQ").shape(), given.at("Q").shape());
    EXPECT_EQ(found.at("dK").shape(), given.at("K").shape());
  }
}

TEST(AttentionProgram, ParametersOfAFileAreUsed) {
  const TemporaryFolder folder;
  TensorMap given = inputs();
  write_safetensors(folder / "in.safetensors", given);
  const std::vector<std::string> call = {"--quiet", "--attention=gmm-prf", "--mechanism.features=8"};
  const auto run = [&](const std::string& file, const std::string& seed) {
    std::vector<std::string> arguments = call;
    arguments.insert(arguments.end(), {"--io=" + file, "--seed=" + seed, "--out=out.safetensors"});
    const Ended ended = attention(folder, arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return read_safetensors(folder / "out.safetensors").tensors;
  };
  const TensorMap first = run("in.safetensors", "1");
  EXPECT_GT(difference(run("in.safetensors", "2").at("O"), first.at("O")), 1e-6);
  for (const char* name : {"frequencies.mean", "frequencies.scale", "frequencies.noise"}) given[name] = first.at(name);
  write_safetensors(folder / "whole.safetensors", given);
  const TensorMap again = run("whole.safetensors", "2");
  EXPECT_EQ(difference(again.at("O"), first.at("O")), 0);
  EXPECT_EQ(difference(again.at("Omega"), first.at("Omega")), 0);
  EXPECT_EQ(again.at("dfrequencies.mean").shape(), first.at("frequencies.mean").shape());
}

// KL as released draws at each forward pass; frequencies from a file are used all the same, and those used are written.
TEST(AttentionProgram, WhatItWritesComputesTheSameAgain) {
  const TemporaryFolder folder;
  const TensorMap given = inputs();
  write_safetensors(folder / "in.safetensors", given);
  const auto run = [&](const std::string& name, const std::string& file, const std::string& seed) {
    const std::string as = name == "performer" ? "skyformer" : "released";  // released, it has none
    const Ended ended =
        attention(folder, {"--quiet", "--attention=" + name, "--mechanism.features=8", "--training", "--matrix",
                           "--mechanism.as=" + as, "--io=" + file, "--seed=" + seed, "--out=out.safetensors"});
    EXPECT_EQ(ended.code, 0) << name << ": " << ended.err;
    return read_safetensors(folder / "out.safetensors").tensors;
  };
  for (const std::string name : {"performer", "gmm-rks", "gmm-prf", "fastfood-prf", "generative-rks"}) {
    const TensorMap first = run(name, "in.safetensors", "1");
    TensorMap again = given;
    for (const auto& [key, tensor] : first) {
      if (key.starts_with("frequencies.")) again[key] = tensor;
    }
    write_safetensors(folder / "again.safetensors", again);
    const TensorMap second = run(name, "again.safetensors", "2");
    EXPECT_EQ(difference(second.at("O"), first.at("O")), 0) << name;
    EXPECT_EQ(difference(second.at("Omega"), first.at("Omega")), 0) << name;
    EXPECT_LT(difference(matmul(first.at("A"), given.at("V")), first.at("O")), 1e-9) << name;
  }
}

TEST(AttentionProgram, NumbersThatOverflowAreToldAndFail) {
  const TemporaryFolder folder;
  TensorMap given;
  for (const char* name : {"Q", "K", "V"}) given[name] = Tensor::full({1, 1, 4, 2}, 1e18, DType::f32);
  write_safetensors(folder / "in.safetensors", given);
  const Ended ended = attention(folder, {"--io=in.safetensors", "--attention=linear-elu", "--out=out.safetensors"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("O: 8 of 8 numbers are not finite, the first is element 0; out.safetensors holds them"),
            std::string::npos)
      << ended.err;
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "out.safetensors"));
  const Ended several =
      attention(folder, {"--io=in.safetensors", "--attention=softmax,linear-elu", "--out=both.safetensors"});
  EXPECT_EQ(several.code, 2);
  EXPECT_NE(several.err.find("--out=both.safetensors: one file cannot take the results of several"), std::string::npos)
      << several.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "both.safetensors"));
}

// Also in training, where BatchNorm makes different frequencies from the generative kernels' noise: A of the first
// example, whose keys are all real, from Omega by KL Eq. 3. FastFood pads heads of 3.
TEST(AttentionProgram, OmegaIsTheOneThatOUsed) {
  const TemporaryFolder folder;
  TensorMap given = inputs();
  for (const char* x : {"Q", "K"}) given[x] = given[x].slice(3, 0, 3).contiguous();
  write_safetensors(folder / "in.safetensors", given);
  for (const char* name : {"generative-rks", "gmm-rks", "fastfood-rks"}) {
    for (const bool training : {false, true}) {
      std::vector<std::string> arguments = {"--quiet",
                                            "--io=in.safetensors",
                                            "--matrix",
                                            "--mechanism.features=64",
                                            "--mechanism.denominator-eps=0",
                                            std::string("--attention=") + name,
                                            "--out=out.safetensors"};
      if (training) arguments.emplace_back("--training");
      ASSERT_EQ(attention(folder, arguments).code, 0);
      const TensorMap found = read_safetensors(folder / "out.safetensors").tensors;
      const Tensor Omega = found.at("Omega").cast(DType::f64);  // (1 or heads, M, dim)
      const auto angles = [&](const char* x) {
        return matmul(given.at(x).select(0, 0) * std::pow(3, -0.25), Omega.transpose(-2, -1));  // (heads, 9, M)
      };
      const Tensor q = angles("Q"), k = angles("K");
      const Tensor weights =
          matmul(cos(q), cos(k).transpose(-2, -1)) + matmul(sin(q), sin(k).transpose(-2, -1));  // times M
      EXPECT_LT(difference(weights / sum(weights, {-1}, true), found.at("A").select(0, 0)), 1e-9) << name << training;
    }
  }
}

TEST(AttentionProgram, NamesWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  const auto refusal = [&](TensorMap given, const std::vector<std::string>& options) {
    write_safetensors(folder / "in.safetensors", given);
    std::vector<std::string> arguments = {"--io=in.safetensors", "--mechanism.features=8"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Ended ended = attention(folder, arguments);
    EXPECT_EQ(ended.code, 2);
    return ended.err;
  };
  TensorMap given = inputs();
  given.erase("V");
  EXPECT_NE(refusal(given, {"--attention=performer"}).find("performer on in.safetensors: tensor 'V' is missing"),
            std::string::npos);
  given = inputs();
  given["frequencies.nose"] = Tensor::zeros({1});
  EXPECT_NE(refusal(given, {"--attention=performer"}).find("the nearest is 'frequencies.noise'"), std::string::npos);
  given = inputs();
  given["frequencies.noise"] = Tensor::zeros({1, 5, 4});
  EXPECT_NE(refusal(given, {"--attention=performer"}).find("'frequencies.noise' is (1, 5, 4), but must be (1, 8, 4)"),
            std::string::npos);
  given = inputs();
  given.erase("K");
  EXPECT_NE(refusal(given, {"--attention=performer"}).find("'K' is missing"), std::string::npos);
  EXPECT_NE(refusal(inputs(), {"--attention=skyformer", "--causal"}).find("skyformer has no causal form"),
            std::string::npos);
  const Ended nothing = attention(folder, {});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("--list, --show NAME, or --io FILE"), std::string::npos) << nothing.err;
}

}  // namespace
}  // namespace bochner
