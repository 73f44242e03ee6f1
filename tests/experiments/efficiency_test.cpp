// The efficiency program: every mechanism at every length, in the table and in the record. No test checks a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/sanitizer.h"
#include "experiments/common/config/experiment.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;

Ended efficiency(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BOCHNER_EFFICIENCY);
  return Process(arguments, folder.path()).wait();
}

TEST(EfficiencyProgram, WhatNeedsTooMuchMemoryStopsAndTheOthersGoOn) {
  if (kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer ends a program that asks for terabytes";
  const TemporaryFolder folder;
  const Ended ended = efficiency(folder, {"--task=attention", "--dim=512", "--lengths=16,1000000000",
                                          "--methods=none,softmax", "--repeats=1", "--out=run"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("stops here: memory: out of memory on cpu"), std::string::npos) << ended.err;
  const auto results = nlohmann::json::parse(test::contents(folder / "run/results.json"));
  EXPECT_NE(results.dump().find("memory: not run, more than there was."), std::string::npos);
  for (const auto& curve : results["figures"][1]["curves"]) EXPECT_EQ(curve["points"].size(), 1U);
}

TEST(EfficiencyProgram, MeasuresAttentionAndTheModelAroundIt) {
  for (const std::string task : {"attention", "model"}) {
    const TemporaryFolder folder;
    std::vector<std::string> arguments = {
        "--task=" + task, "--preset=small", "--lengths=16,64",       "--methods=softmax,gmm-prf,none",
        "--repeats=1",    "--out=run",      "--mechanism.features=8"};
    if (task == "model") arguments.emplace_back("--layers=1");
    const Ended ended = efficiency(folder, arguments);
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto figures = nlohmann::json::parse(test::contents(folder / "run/results.json")).at("figures");
    ASSERT_EQ(figures.size(), 4U);
    for (const size_t i : {0U, 1U, 3U}) {  // `none` holds nothing in forward
      ASSERT_EQ(figures[i].at("curves").size(), 3U);
      for (const auto& curve : figures[i].at("curves")) EXPECT_EQ(curve.at("points").size(), 2U) << figures[i];
    }
    // log2 of lengths, log10 of MiB: four times the length takes more memory.
    const auto& memory = figures[3].at("curves").at(0).at("points");
    EXPECT_EQ(memory.at(0).at(0), 4);
    EXPECT_EQ(memory.at(1).at(0), 6);
    EXPECT_GT(memory.at(1).at(1).get<double>(), memory.at(0).at(1).get<double>());
    EXPECT_NE(ended.out.find("gmm-prf"), std::string::npos) << ended.out;
  }
}

nlohmann::json table(const TemporaryFolder& folder) {
  return nlohmann::json::parse(test::contents(folder / "run/results.json")).at("tables").at(0);
}

TEST(EfficiencyProgram, EveryPresetRuns) {
  for (const std::string preset :
       {"small", "regular", "layers", "kl", "kl-retrieval", "kl-listops", "kl-image", "kl-costs"}) {
    const TemporaryFolder folder;
    const Ended ended = efficiency(folder, {"--task=model", "--preset=" + preset, "--lengths=16", "--layers=1",
                                            "--dim=16", "--hidden=16", "--repeats=1", "--quiet", "--out=run"});
    ASSERT_EQ(ended.code, 0) << preset << ": " << ended.err;
    const nlohmann::json rows = table(folder).at("rows");
    for (const auto& row : rows) EXPECT_EQ(row.size(), 9U) << preset;
  }
}

TEST(EfficiencyProgram, StandsBesideTheIdealAndBesideSoftmax) {
  const TemporaryFolder folder;
  const Ended ended = efficiency(folder, {"--lengths=32", "--methods=softmax,performer,none", "--features=0,8,0",
                                          "--repeats=1", "--quiet", "--out=run", "--dim=8"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto rows = table(folder).at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].at(0), "performer 8");
  EXPECT_EQ(rows[2].at(6), "1.00");  // none compared with itself
  EXPECT_EQ(rows[0].at(7), "1.00");  // softmax compared with itself
  EXPECT_EQ(rows[0].at(8), "1.00");
}

TEST(EfficiencyProgram, SaysWhatItDidNotRun) {
  for (const std::string bound : {"limit", "budget"}) {  // any pass takes more than a millionth of a second
    const TemporaryFolder folder;
    const Ended ended = efficiency(folder, {"--lengths=16,32", "--methods=softmax", "--repeats=1", "--out=run",
                                            "--" + bound + "-seconds=1e-6", "--dim=8"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto rows = table(folder).at("rows");
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_NE(rows[0].at(2), bound);
    EXPECT_EQ(rows[1].at(2), bound);
    EXPECT_NE(table(folder).at("title").get<std::string>().find(bound + ": not run"), std::string::npos);
  }
}

TEST(EfficiencyProgram, ModelsOfSeveralDepths) {
  const TemporaryFolder folder;
  const Ended ended = efficiency(folder, {"--task=model", "--layers=1,3", "--lengths=16", "--methods=performer,none",
                                          "--dim=8", "--hidden=8", "--repeats=1", "--quiet", "--out=run"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto rows = table(folder).at("rows");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].at(0), "performer, 1 layers");
  EXPECT_EQ(rows[2].at(0), "performer, 3 layers");
  EXPECT_GT(std::stod(rows[2].at(5).get<std::string>()), std::stod(rows[0].at(5).get<std::string>()));
}

TEST(EfficiencyProgram, MeasuresAgainstEachSizeAndFitsExponents) {
  struct Sweep {
    std::string against, values;
    std::vector<std::string> with;  ///< the methods whose memory then differs
  };
  for (const Sweep& sweep :
       {Sweep{"features", "256,1024", {"performer", "gmm-prf"}},
        Sweep{"head-dim", "16,64", {"performer", "gmm-prf", "none"}}, Sweep{"components", "2,8", {"gmm-prf"}}}) {
    const TemporaryFolder folder;
    std::vector<std::string> arguments = {"--against=" + sweep.against,
                                          "--values=" + sweep.values,
                                          "--lengths=64",
                                          "--clock=cpu",
                                          "--repeats=1",
                                          "--methods=performer,gmm-prf,none",
                                          "--out=run",
                                          "--quiet",
                                          "--threads=1"};
    if (sweep.against != "features") arguments.emplace_back("--mechanism.features=64");
    const Ended ended = efficiency(folder, arguments);
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto rows = table(folder).at("rows");
    ASSERT_EQ(rows.size(), 6U);
    EXPECT_EQ(table(folder).at("head").at(1), sweep.against);
    const std::string first = sweep.values.substr(0, sweep.values.find(','));
    for (size_t i = 0; i < rows.size(); i += 2) {
      EXPECT_EQ(rows[i].at(1), first);
      const std::string method = rows[i].at(0);
      const bool differs = std::find(sweep.with.begin(), sweep.with.end(), method) != sweep.with.end();
      const double less = std::stod(rows[i].at(5).get<std::string>());
      const double more = std::stod(rows[i + 1].at(5).get<std::string>());
      EXPECT_EQ(more != less, differs) << sweep.against << " " << method << ": " << less << ", " << more;
    }
    const auto fitted = nlohmann::json::parse(test::contents(folder / "run/results.json")).at("tables").at(1);
    ASSERT_EQ(fitted.at("rows").size(), 3U);
    const auto& none = fitted.at("rows").at(2);
    EXPECT_EQ(none.at(3), none.at(4));  // with two values, all of them are the last two
    EXPECT_EQ(none.at(3), sweep.against == "head-dim" ? "1.00" : "0.00") << fitted;  // it holds only vectors of heads
  }
}

TEST(EfficiencyProgram, RefusesWhatItCanNotMeasure) {
  const TemporaryFolder folder;
  EXPECT_EQ(efficiency(folder, {"--values=8"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--against=features", "--lengths=16"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--against=features", "--lengths=16,32", "--values=8"}).code, 2);
  EXPECT_EQ(
      efficiency(folder, {"--against=features", "--lengths=16", "--values=8", "--methods=none", "--features=8"}).code,
      2);
  EXPECT_EQ(efficiency(folder, {"--methods=softmaxx"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--heads=3", "--dim=64"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--causal", "--task=model"}).code, 2);
  EXPECT_EQ(efficiency(folder, {"--methods=softmax,none", "--features=8"}).code, 2);
}

TEST(Measurements, AFolderThatCannotBeWrittenIsToldBeforeTheWork) {
  const TemporaryFolder folder;
  test::put(folder / "file", "");
  const std::vector<std::vector<std::string>> programs = {{BOCHNER_EFFICIENCY, "--lengths=16", "--methods=none"},
                                                          {BOCHNER_KERNEL_ESTIMATION, "--projections=1", "--dim=8"},
                                                          {BOCHNER_APPROXIMATION, "--task=regions"},
                                                          {BOCHNER_TURING}};
  for (std::vector<std::string> command : programs) {
    command.emplace_back("--out=file/run");
    const Ended ended = Process(command, folder.path()).wait();
    EXPECT_EQ(ended.code, 2) << command[0];
    EXPECT_EQ(ended.err, "error: cannot write in the folder file/run: Not a directory; name another with --out\n");
    EXPECT_EQ(ended.out, "") << command[0];
  }
  const Ended ended = efficiency(folder, {"--lengths=16", "--out=/proc"});  // where nobody can create files
  EXPECT_TRUE(ended.err.starts_with("error: cannot write in the folder /proc: ")) << ended.err;
  // What is refused later does not leave a folder behind.
  EXPECT_EQ(efficiency(folder, {"--heads=3", "--dim=64", "--out=a/b"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST(Measurements, AnErrorThatIsNoFiniteNumberIsRefused) {
  const TemporaryFolder folder;
  const auto told = [&](std::vector<std::string> command, const std::string& text) {
    command.emplace_back("--out=run");
    const Ended ended = Process(command, folder.path()).wait();
    EXPECT_EQ(ended.code, 2) << text;
    EXPECT_NE(ended.err.find("error: " + text), std::string::npos) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  const std::string large =
      "the error is no finite number: queries and keys are too large; take smaller ones, by --scales";
  told({BOCHNER_APPROXIMATION, "--length=16", "--features=8", "--repeats=1", "--scales=0.5,1e30"},
       "deviation 1e+30, positive, orthogonal, M = 8: " + large);
  told({BOCHNER_APPROXIMATION, "--task=spectral", "--lengths=16", "--features=8", "--repeats=1", "--scales=1e200"},
       "L = 16, Q and K of deviation 1e+200, nystrom, M = 8: " + large);
  told({BOCHNER_KERNEL_ESTIMATION, "--preset=quick", "--bias=1e300"},
       "sine, 4 projections: the relative error is no finite number; take a smaller --bias");
}

TEST(Measurements, HelpOmitsWhatIsAlwaysRefused) {
  const TemporaryFolder folder;
  using Names = std::vector<std::string>;
  /// Which of the options --help of a program shows.
  const auto shown = [&](const std::string& program, const Names& options) {
    const Ended help = Process({program, "--help"}, folder.path()).wait();
    EXPECT_EQ(help.code, 0) << help.err;
    Names found;
    for (const std::string& option : options) {
      if (help.out.find("\n  --" + option + " ") != std::string::npos) found.push_back(option);
    }
    return found;
  };
  const Names all = options_of_training({"seed", "preset", "task"});
  for (const char* program : {BOCHNER_APPROXIMATION, BOCHNER_TURING}) {
    EXPECT_EQ(shown(program, all), (Names{"seed", "task"})) << program;
  }
  for (const char* program : {BOCHNER_BUNDLE, BOCHNER_EFFICIENCY, BOCHNER_KERNEL_ESTIMATION}) {
    EXPECT_EQ(shown(program, all), (Names{"seed", "preset", "task"})) << program;
  }
  for (const char* program : {BOCHNER_ATTENTION, BOCHNER_BERT})
    EXPECT_EQ(shown(program, all), Names{"seed"}) << program;
  const Names parts = {"accumulate", "shards", "sequence-shards"};
  for (const char* program : {BOCHNER_GLUE, BOCHNER_MNIST, BOCHNER_PRETRAIN, BOCHNER_SIREN, BOCHNER_UCI, BOCHNER_VIT}) {
    EXPECT_EQ(shown(program, parts), (Names{"accumulate", "shards"})) << program;
  }
  for (const char* program : {BOCHNER_CONVERT, BOCHNER_QPNN}) EXPECT_EQ(shown(program, parts), Names{}) << program;
  for (const char* program : {BOCHNER_LRA, BOCHNER_SPARSITY}) EXPECT_EQ(shown(program, parts), parts) << program;
}

TEST(Measurements, RefuseOptionsThatChangeNothingOrNeverEnd) {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> refused = {{BOCHNER_EFFICIENCY, "--steps=3"},
                                                         {BOCHNER_EFFICIENCY, "--attention=performer"},
                                                         {BOCHNER_KERNEL_ESTIMATION, "--batch=3"},
                                                         {BOCHNER_KERNEL_ESTIMATION, "--steps=3"},
                                                         {BOCHNER_ATTENTION, "--list", "--batch=3"},
                                                         {BOCHNER_ATTENTION, "--list", "--steps=3"},
                                                         {BOCHNER_ATTENTION, "--list", "--causal"},
                                                         {BOCHNER_APPROXIMATION, "--qkv=q"},
                                                         {BOCHNER_APPROXIMATION, "--task=spectral", "--text=t"},
                                                         {BOCHNER_CONVERT, "--accumulate=2"},
                                                         {BOCHNER_EFFICIENCY, "--task=model", "--causal"},
                                                         {BOCHNER_EFFICIENCY, "--head-dim=8", "--dim=64"},
                                                         {BOCHNER_EFFICIENCY, "--against=head-dim", "--head-dim=8"},
                                                         {BOCHNER_GLUE, "--to=a"},
                                                         {BOCHNER_LRA, "--format=html"},
                                                         {BOCHNER_BUNDLE, "--steps=3"},
                                                         {BOCHNER_TURING, "--batch=3"}};
  for (std::vector<std::string> command : refused) {
    command.insert(command.begin() + 1, "--dump-config");  // so that what is not refused ends immediately
    const Ended ended = Process(command, folder.path()).wait();
    EXPECT_EQ(ended.code, 2) << command[0] << " " << command.back();
    EXPECT_NE(ended.err.find("leave it out; "), std::string::npos) << ended.err;
  }
  for (const char* option : {"--repeats=1000000000", "--layers=1000000000"}) {
    const Ended ended = Process({BOCHNER_EFFICIENCY, option}, folder.path()).wait();
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find("at most"), std::string::npos) << ended.err;
  }
}

}  // namespace
}  // namespace bochner
