// The program of GLUE on tiny tables and a tiny BERT, written here.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/experiments/process.h"
#include "tests/experiments/tiny_bert.h"

namespace bochner::test {

/// A folder with `model` and `data/glue`.
class Glue : public ::testing::Test {
 protected:
  Glue() {
    save_tiny_bert(folder_ / "model");
    for (const char* name : {"RTE", "STS-B", "MNLI", "CoLA", "diagnostic"}) {
      std::filesystem::create_directories(folder_ / ("data/glue/" + std::string(name)));
    }
    put(folder_ / "data/glue/RTE/train.tsv", pairs("label", 12, {"entailment", "not_entailment"}));
    put(folder_ / "data/glue/RTE/dev.tsv", pairs("label", 6, {"entailment", "not_entailment"}));
    put(folder_ / "data/glue/RTE/test.tsv", pairs("", 5, {}));
  }

  static std::string pairs(const std::string& label, int rows, const std::vector<std::string>& labels) {
    std::string text = "index\tsentence1\tsentence2" + (label.empty() ? "" : "\t" + label) + "\n";
    for (int i = 0; i < rows; ++i) {
      const bool same = i % 2 == 0;
      text += fmt::format("{}\ta b \"c {}\t{}{}\n", i, i % 3, same ? "a b" : "x y z",
                          label.empty() ? "" : "\t" + labels[static_cast<size_t>(i) % labels.size()]);
    }
    return text;
  }

  Ended run(std::vector<std::string> arguments) const {
    const std::vector<std::string> small = {BOCHNER_GLUE, "--partial", "--pretrained=model", "--max-length=16",
                                            "--threads=1"};
    arguments.insert(arguments.begin(), small.begin(), small.end());
    return Process(arguments, folder_.path()).wait();
  }
  Ended train(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--task=rte", "--steps=3", "--batch=4"});
    return run(arguments);
  }
  /// With other options for the method. `uptrain` replaces one of the tiny model's two blocks.
  Ended fit(const std::string& method, std::vector<std::string> arguments) const {
    arguments.push_back("--model.method=" + method);
    if (method == "uptrain") arguments.emplace_back("--model.top=1");
    return train(arguments);
  }
  nlohmann::json results(const std::string& name) const {
    return nlohmann::json::parse(contents(folder_ / name / "results.json"));
  }

  TemporaryFolder folder_;
};

}  // namespace bochner::test
