// Small runs of the SNNK experiments, as a person would start them.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "engine/io/csv.h"
#include "engine/io/idx.h"
#include "engine/ops/binary.h"
#include "engine/random.h"
#include "experiments/common/process/arguments.h"
#include "experiments/common/report/spread.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::run;
using test::TemporaryFolder;

/// Two classes by the sign of x y, which no linear model can separate.
void put_table(const TemporaryFolder& folder, const std::string& name) {
  Generator generator(1);
  std::string text = "x,y,class\n";
  for (int i = 0; i < 1200; ++i) {
    const double x = 2 * generator.uniform() - 1;
    const double y = 2 * generator.uniform() - 1;
    text += fmt::format("{:.4f},{:.4f},{}\n", x, y, x * y > 0 ? "same" : "other");
  }
  put(folder / name, text);
}

std::vector<std::string> short_uci(const std::vector<std::string>& more) {
  std::vector<std::string> command = {BOCHNER_UCI,
                                      "--data=t.csv",
                                      "--label=class",
                                      "--model.first=32",
                                      "--model.hidden=32",
                                      "--optim.rate=1e-2",
                                      "--optim.evaluate-every=50",
                                      "--steps=150",
                                      "--batch=64",
                                      "--threads=1"};
  if (argument(more, "attention") != "linear") command.emplace_back("--model.features=16");
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(UciProgram, LearnsWithBothLayersAndBundles) {
  const TemporaryFolder folder;
  put_table(folder, "t.csv");
  const Ended ended = run(folder, short_uci({"--attention=linear,snnk-relu", "--out=out"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const std::string layer : {"linear", "snnk-relu"}) {
    const auto results = nlohmann::json::parse(contents(folder / ("out/" + layer + "/results.json")));
    const auto& test = results["metrics"]["test"];
    EXPECT_EQ(results["task"], "csv");  // since a file and a label were named
    EXPECT_GT(test["accuracy"], 0.85) << layer;
    EXPECT_GT(test["auc"], 0.9) << layer;
    EXPECT_NEAR(results["samples_per_second"].get<double>(), 64 * results["steps_per_second"].get<double>(), 1e-3);
    if (layer == "linear") continue;
    EXPECT_EQ(results["parameters"], 2 * 32 + 32 + 32 * 16 + 2 * 32 + 2);
    EXPECT_NEAR(test["accuracy-bundled"].get<double>(), test["accuracy"].get<double>(), 0.01);
    EXPECT_LT(test["flops-bundled"], test["flops"]);
    EXPECT_LT(test["bytes-bundled"], test["bytes"]);
  }
  EXPECT_NE(contents(folder / "out/report.html").find("snnk-relu"), std::string::npos);
  EXPECT_FALSE(contents(folder / "t.csv.bochner-cache").empty());
}

TEST(UciProgram, SnnkStandsForTheLastOfSeveralLayers) {
  const TemporaryFolder folder;
  put_table(folder, "t.csv");
  const Ended ended = run(folder, short_uci({"--attention=linear,snnk-cos", "--model.first=24,12", "--model.hidden=6",
                                             "--steps=5", "--out=out"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const int front = 2 * 24 + 24 + 24 * 12 + 12;
  const int back = 6 * 2 + 2;
  const auto results = [&](const std::string& layer) {
    return nlohmann::json::parse(contents(folder / ("out/" + layer + "/results.json")));
  };
  EXPECT_EQ(results("linear")["parameters"], front + 12 * 6 + 6 + back);
  const auto snnk = results("snnk-cos");
  EXPECT_EQ(snnk["parameters"], front + 6 * 16 + back);
  const auto& test = snnk["metrics"]["test"];
  EXPECT_EQ(test["flops"], 2 * (2 * 24 + 24 * 12 + 12 * 8 + 6 * 16 + 6 * 2));  // 16 features of 8 projections
  EXPECT_EQ(test["flops-bundled"], 2 * (2 * 24 + 24 * 12 + 12 * 8 + 2 * 16));
  EXPECT_NEAR(test["accuracy-bundled"].get<double>(), test["accuracy"].get<double>(), 0.01);
  const Ended bare = run(folder, short_uci({"--model.first="}));
  EXPECT_EQ(bare.code, 2);
  EXPECT_NE(bare.err.find("model.first"), std::string::npos) << bare.err;
}

TEST(UciProgram, GoesOnBitForBit) {
  const TemporaryFolder folder;
  put_table(folder, "t.csv");
  ASSERT_EQ(run(folder, short_uci({"--attention=snnk-cos", "--optim.snnk-rate=3", "--out=whole"})).code, 0);
  {
    Process process(short_uci({"--attention=snnk-cos", "--optim.snnk-rate=3", "--out=cut"}), folder.path());
    process.wait_for(folder / "cut/metrics.jsonl", "valid");
    process.kill(SIGINT);
    process.wait();
  }
  const Ended again = run(folder, {BOCHNER_UCI, "--resume", "--out=cut", "--data=t.csv"});
  ASSERT_EQ(again.code, 0) << again.err;
  const auto results = [&](const std::string& name) {
    return nlohmann::json::parse(contents(folder / (name + "/results.json")));
  };
  EXPECT_EQ(results("cut")["metrics"], results("whole")["metrics"]);
  EXPECT_EQ(results("cut")["samples"], 150 * 64);  // none of the batches of the 960 rows is a short one
  EXPECT_EQ(results("whole")["samples"], 150 * 64);
}

TEST(UciProgram, MistakesAreOneLine) {
  const TemporaryFolder folder;
  put(folder / "t.csv", "x,class\n1,a\ntwo,b\n");
  const Ended text = run(folder, short_uci({}));
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.err.find("t.csv: row 3 column 1"), std::string::npos) << text.err;
  const Ended missing = run(folder, {BOCHNER_UCI, "--task=higgs", "--data=nowhere"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("--data=nowhere: there is no such file or folder; HIGGS.csv"), std::string::npos)
      << missing.err;
  const Ended file = run(folder, {BOCHNER_UCI, "--data=t.csv"});
  EXPECT_EQ(file.code, 2);
  EXPECT_NE(file.err.find("--label=COLUMN"), std::string::npos) << file.err;
  const Ended odd = run(folder, short_uci({"--attention=snnk-sin", "--model.features=7"}));
  EXPECT_EQ(odd.code, 2);
}

TEST(MnistProgram, RunsOnIdxFiles) {
  const TemporaryFolder folder;
  Generator generator(2);
  for (const auto& [name, count] : {std::pair{"train", 200}, std::pair{"t10k", 50}}) {
    const Tensor labels = integers({count}, 0, 10, generator);
    const Tensor images = Tensor::zeros({count, 6, 6}, DType::u8);
    for (int64_t i = 0; i < count; ++i) {  // one column of the picture per class
      images.select(0, i).select(1, labels.data<int64_t>()[i] % 6).fill_(labels.data<int64_t>()[i] < 6 ? 255 : 100);
    }
    write_idx(folder / (std::string(name) + "-images-idx3-ubyte.gz"), images);
    write_idx(folder / (std::string(name) + "-labels-idx1-ubyte"), labels.cast(DType::u8));
  }
  std::filesystem::create_directory(folder / "data");
  std::filesystem::create_symlink("..", folder / "data/fashion-mnist");
  const Ended ended =
      run(folder, {BOCHNER_MNIST, "--task=fashion-mnist", "--attention=snnk-relu", "--model.first=32",
                   "--model.hidden=32", "--model.features=16", "--model.dropout=0", "--optim.rate=5e-3", "--steps=600",
                   "--batch=16", "--optim.evaluate-every=200", "--threads=1", "--out=out"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto results = nlohmann::json::parse(contents(folder / "out/results.json"));
  EXPECT_GT(results["metrics"]["test"]["accuracy"], 0.9);
  const Tensor labels = read_idx(folder / "t10k-labels-idx1-ubyte");
  labels.data<uint8_t>()[7] = 10;
  write_idx(folder / "t10k-labels-idx1-ubyte", labels);
  const Ended beyond = run(folder, {BOCHNER_MNIST, "--task=fashion-mnist"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_EQ(beyond.err,
            "error: data/fashion-mnist/t10k-labels-idx1-ubyte: label 7, counted from 0, is 10; there are 0 to 9\n");
  const Ended missing = run(folder, {BOCHNER_MNIST, "--task=fashion-mnist", "--data=nowhere"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.err,
            "error: mnist: nowhere/train-images-idx3-ubyte is missing, plain or packed (.gz, .zst); ./run data make "
            "fashion-mnist --data DIR fetches Fashion-MNIST into DIR/fashion-mnist\n");
  const Ended digits = run(folder, {BOCHNER_MNIST, "--data=nowhere"});
  EXPECT_NE(digits.err.find("./run data check says where they come from"), std::string::npos) << digits.err;
}

TEST(UciProgram, SweepsWidthsAndFeatures) {
  const TemporaryFolder folder;
  put_table(folder, "t.csv");
  const std::vector<std::string> sweep = {
      "--attention=snnk-relu", "--sweep.hidden=8,32", "--sweep.features=4,16", "--seeds=2", "--steps=20", "--out=out"};
  const Ended ended = run(folder, short_uci(sweep));
  ASSERT_EQ(ended.code, 0) << ended.err;
  CsvReader table(folder / "out/sweep.csv");
  table.read_header();
  int rows = 0;
  std::map<std::string, std::vector<double>> losses;  // of the test, per network
  for (; table.next(); ++rows) {
    const int64_t hidden = table.integer(table.column("hidden"));
    const int64_t features = table.integer(table.column("features"));
    EXPECT_EQ(table.integer(table.column("parameters")),
              96 + (features == 0 ? 33 * hidden : features * hidden) + 2 * hidden + 2);
    const std::string name =
        features == 0 ? fmt::format("linear-d{}", hidden) : fmt::format("snnk-relu-d{}-m{}", hidden, features);
    const auto metrics =
        test::results_of(folder / fmt::format("out/{}-seed{}", name, table.integer(table.column("seed"))))["metrics"];
    for (const std::string split : {"valid", "test"}) {
      for (const std::string metric : {"loss", "accuracy"}) {
        const double expected = metrics[split][metric];
        EXPECT_NEAR(table.number(table.column(split + "_" + metric)), expected, 1e-9) << name << split << metric;
      }
    }
    losses[name].push_back(metrics["test"]["loss"]);
  }
  EXPECT_EQ(rows, (2 + 2 * 2) * 2);
  for (const auto& [name, values] : losses) {
    EXPECT_NE(ended.out.find(mean_text(values)), std::string::npos) << name << ended.out;
  }
  const std::string report = contents(folder / "out/report.html");
  EXPECT_NE(report.find("Test loss against parameters"), std::string::npos);
  EXPECT_NE(report.find("snnk-relu d32 m16"), std::string::npos);
  const auto overrides = [&](const char* name) { return test::results_of(folder / "out" / name)["overrides"]; };
  EXPECT_EQ(overrides("snnk-relu-d32-m16-seed2")["model.hidden"], "32");
  EXPECT_EQ(overrides("snnk-relu-d32-m16-seed2")["model.features"], "16");
  EXPECT_EQ(overrides("linear-d8-seed1")["model.features"], "16") << "as asked for";
  // A run of the sweep can be repeated alone, and what is finished stays.
  EXPECT_EQ(contents(folder / "out/snnk-relu-d32-m16-seed2/config.ini").find("sweep"), std::string::npos);
  std::vector<std::string> again = short_uci(sweep);
  EXPECT_EQ(run(folder, again).code, 2);
  again.emplace_back("--resume");
  std::filesystem::remove(folder / "out/report.html");
  ASSERT_EQ(run(folder, again).code, 0);
  EXPECT_EQ(contents(folder / "out/report.html").empty(), false);
  again.emplace_back("--sweep.features=4,16,64");
  const Ended extended = run(folder, again);
  EXPECT_EQ(extended.code, 0) << extended.err;
  const Ended twice = run(folder, short_uci({"--attention=snnk-cos", "--sweep.features=4,8,4", "--out=odd"}));
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("--sweep.features: 4 stands twice"), std::string::npos) << twice.err;
  const Ended odd = run(folder, short_uci({"--attention=snnk-cos", "--sweep.features=4,7", "--out=odd"}));
  EXPECT_EQ(odd.code, 2);
  EXPECT_NE(odd.err.find("7 features"), std::string::npos) << odd.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "odd"));
  struct Refused {
    std::string layer, option, condition;
  };
  for (const Refused& r : {Refused{"linear", "--sweep.features=4,8", "an SNNK layer"},
                           {"linear", "--model.features=8", "an SNNK layer"},
                           {"linear", "--optim.snnk-rate=2", "an SNNK layer"},
                           {"snnk-cos", "--model.bias", "--attention=snnk-relu"},
                           {"snnk-relu", "--model.eta=3", "universal features"},
                           {"snnk-tanh", "--model.orthogonal", "another SNNK layer than snnk-tanh"},
                           {"snnk-tanh", "--model.damped=off", "universal features"}}) {
    const Ended plain = run(folder, short_uci({"--attention=" + r.layer, r.option, "--out=odd"}));
    EXPECT_EQ(plain.code, 2);
    const std::string said =
        r.option.substr(0, r.option.find('=')) + ": leave it out; it counts only with " + r.condition;
    EXPECT_NE(plain.err.find(said), std::string::npos) << plain.err;
  }
}

TEST(BundleProgram, BundlesFinishedRunsOfBothKinds) {
  const TemporaryFolder folder;
  put_table(folder, "t.csv");
  ASSERT_EQ(run(folder, short_uci({"--attention=linear,snnk-relu,snnk-tanh", "--out=out"})).code, 0);
  const auto rows = [&](const std::string& file) {
    const auto results = nlohmann::json::parse(contents(folder / file));
    return results["tables"][0]["rows"].get<std::vector<std::vector<std::string>>>();
  };
  const std::vector<std::string> quick = {BOCHNER_BUNDLE, "--rounds=3", "--rows=1,64", "--threads=1"};
  const auto bundle = [&](std::vector<std::string> more) {
    more.insert(more.begin(), quick.begin(), quick.end());
    return run(folder, more);
  };
  const Ended exact = bundle({"--data=out/snnk-relu", "--out=exact"});
  ASSERT_EQ(exact.code, 0) << exact.err;
  const auto before_after = rows("exact/results.json");
  ASSERT_EQ(before_after.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(contents(folder / "exact/results.json"))["settings"]["data"], "out/snnk-relu");
  EXPECT_EQ(before_after[0][1], before_after[1][1]);  // accuracy
  EXPECT_LT(std::stod(before_after[1][3]), 1e-5);     // logits apart
  EXPECT_LT(std::stoi(before_after[1][4]), std::stoi(before_after[0][4]));
  EXPECT_GT(std::stod(before_after[1][6]), 0);                         // milliseconds
  const Ended other = bundle({"--data=out/snnk-tanh", "--out=tanh"});  // by features of another seed
  EXPECT_EQ(other.code, 0) << other.err;
  const Ended fitted = bundle({"--data=out/linear", "--features=256", "--out=fitted"});
  ASSERT_EQ(fitted.code, 0) << fitted.err;
  const auto three = rows("fitted/results.json");
  ASSERT_EQ(three.size(), 3U);
  EXPECT_LT(std::stod(three[2][3]), std::stod(three[1][3]));  // the fit is nearer than Psi
  EXPECT_GT(std::stod(three[2][1]), 80);
  const Ended taken = bundle({"--data=out/linear", "--out=fitted"});
  EXPECT_EQ(taken.code, 2);
  EXPECT_EQ(taken.err, "error: fitted holds a run already; name another folder with --out\n");
  const Ended none = bundle({"--data=nowhere"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("there is no run in nowhere; train one"), std::string::npos) << none.err;
  const Ended above = bundle({"--data=out"});
  EXPECT_NE(above.err.find("there is no run in out itself; name one of those below it: out/linear"), std::string::npos)
      << above.err;
}

// More test rows than run at once: 4096 of one class, and then fewer of the other, whose loss is larger.
TEST(BundleProgram, EachTestRowCountsAlike) {
  const TemporaryFolder folder;
  const auto put_rows = [&](const std::string& name, int count, const auto& label) {
    std::string text = "# label";
    for (int i = 0; i < 28; ++i) text += fmt::format(",f{}", i);
    text += "\n";
    std::string zeros;  // what all columns but the first contain
    for (int i = 0; i < 27; ++i) zeros += ",0";
    for (int i = 0; i < count; ++i) text += fmt::format("{},{}{}\n", label(i), i % 7, zeros);
    put(folder / name, text);
  };
  put_rows("all_train.csv", 200, [](int i) { return i % 4 == 0 ? "1.0" : "0.0"; });
  put_rows("all_test.csv", 5000, [](int i) { return i < 4096 ? "0.0" : "1.0"; });
  const Ended trained =
      run(folder, {BOCHNER_UCI, "--task=hepmass", "--data=.", "--attention=snnk-relu", "--model.first=8",
                   "--model.hidden=8", "--model.features=16", "--steps=30", "--batch=64", "--threads=1", "--out=out"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Ended ended =
      run(folder, {BOCHNER_BUNDLE, "--rounds=1", "--rows=1", "--threads=1", "--data=out", "--out=made"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto expected = test::results_of(folder / "out")["metrics"]["test"];
  const auto rows = test::results_of(folder / "made")["tables"][0]["rows"].get<std::vector<std::vector<std::string>>>();
  ASSERT_EQ(rows.size(), 2U);
  for (const std::vector<std::string>& row : rows) {  // before and after
    EXPECT_NEAR(std::stod(row[1]), 100 * expected["accuracy"].get<double>(), 0.03);
    EXPECT_NEAR(std::stod(row[2]), expected["loss"].get<double>(), 1e-4);
  }
}

/// The options of `program` for its model and its training, one name per line of every preset. `free` are the task's.
void expect_stated(const std::string& program, const std::string& name, const std::set<std::string>& free) {
  const TemporaryFolder folder;
  const Ended ended = run(folder, {program, "--dump-config"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string sources = std::string(BOCHNER_SOURCE_DIR) + "/experiments/" + name + "/presets/";
  int presets = 0;
  for (const std::filesystem::directory_entry& file : std::filesystem::directory_iterator(sources)) {
    ++presets;
    const std::string preset = file.path().filename().string();
    const std::string text = contents(file.path());
    std::istringstream lines(ended.out.substr(ended.out.find("\ndata = ")));  // after what every experiment has
    std::string group;
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("[")) group = line;
      const size_t end = line.find(" = ");
      if (end == std::string::npos || free.contains(group) || free.contains(line.substr(0, end))) continue;
      EXPECT_NE(text.find("\n" + line.substr(0, end) + " ="), std::string::npos)
          << name << " " << preset << ": " << line;
      ++count;
    }
    EXPECT_GT(count, 3);
  }
  EXPECT_GE(presets, 2) << sources;
}

TEST(SnnkPrograms, PresetsStateEverySetting) {
  expect_stated(BOCHNER_MNIST, "mnist", {"data"});
  expect_stated(BOCHNER_UCI, "uci", {"data", "label", "[csv]"});
  expect_stated(BOCHNER_SIREN, "siren", {"data"});
  expect_stated(BOCHNER_QPNN, "qpnn", {"data"});
  expect_stated(BOCHNER_BUNDLE, "bundle", {"data", "tables"});
  expect_stated(BOCHNER_KERNEL_ESTIMATION, "kernel-estimation", {"data"});
}

}  // namespace
}  // namespace bochner
