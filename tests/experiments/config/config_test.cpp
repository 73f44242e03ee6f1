#include "experiments/common/program/settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/nearest.h"
#include "experiments/common/config/command_line.h"
#include "experiments/common/config/ini.h"
#include "tests/experiments/process.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

struct ModelConfig {
  int layers = 2;
  double rate = 1e-3;
  bool bias = true;
  uint64_t salt = 7;
  std::vector<int64_t> sizes = {64, 128};
  std::vector<double> rates;
  std::vector<std::string> kernels = {"rks"};
  std::string title;

  void fields(Fields& f) {
    f("layers", layers, "number of layers").at_least(1).at_most(64);
    f("rate", rate, "learning rate").above(0);
    f("bias", bias, "add a bias");
    f("salt", salt, "a large number");
    f("sizes", sizes, "sizes").at_least(1);
    f("rates", rates, "rates").above(0).below(1);
    f("kernels", kernels, "kernels").one_of({"rks", "prf", "fastfood"});
    f("title", title, "any text");
  }
};

struct Config {
  RunOptions run{.task = "bowl",
                 .attention = "softmax",
                 .tasks = {"bowl", "valley"},
                 .attentions = {"softmax", "linear-elu", "performer"}};
  ModelConfig model;
  void fields(Fields& f) {
    run.fields(f);
    f.group("model", model);
  }
};

Experiment experiment() {
  return {"toy",
          "An experiment of the tests",
          {{{"paper", "steps = 40\n[model]\nlayers = 3\nrate = 0.25\n"},
            {"paper.valley", "[model]\nlayers = 5\n"},
            {"paper.valley.performer", "[model]\nlayers = 7\n"},
            {"one.bowl", "steps = 12\n"},
            {"nested", "preset = paper\n"},
            {"few", "tasks = bowl other\nsteps = 12\n"}},
           ""}};
}

struct Loaded {
  Config config;
  Fields fields = Fields::of(config);
  ConfigReport report;
};

void load(Loaded& loaded, const std::vector<std::string>& arguments, const Environment& environment = {}) {
  loaded.report = load_config(experiment(), loaded.fields, loaded.config.run, arguments, environment);
}

std::string error_of(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  Loaded loaded;
  return test::message_of([&] { load(loaded, arguments, environment); });
}

TEST(Config, LaterSourcesWin) {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "a.ini").string();
  test::put(file, "[model]\nlayers = 10\nrate = 0.5\n");
  struct Case {
    std::vector<std::string> arguments;
    Environment environment;
    int layers;
  };
  const Environment variable = {{"BOCHNER_MODEL_LAYERS", "20"}};
  const std::vector<Case> cases = {
      {{}, {}, 2},
      {{"--preset=paper"}, {}, 3},
      {{"--preset", "paper", "--config", file}, {}, 10},
      {{"--config=" + file, "--preset=paper"}, variable, 20},
      {{"--config=" + file, "--preset=paper", "--model.layers=30"}, variable, 30},
      {{"--model.layers=30", "--model.layers", "31"}, variable, 31},
  };
  for (const Case& c : cases) {
    Loaded loaded;
    load(loaded, c.arguments, c.environment);
    EXPECT_EQ(loaded.config.model.layers, c.layers);
    EXPECT_EQ(loaded.fields.find("model.layers")->was_asked(), c.layers > 3);  // not by a preset
  }
}

TEST(Config, PresetsLayerByTaskAndMechanism) {
  const auto layers = [](const std::vector<std::string>& arguments, const Environment& environment = {}) {
    Loaded loaded;
    load(loaded, arguments, environment);
    return loaded.config.model.layers;
  };
  EXPECT_EQ(layers({"--preset=paper"}), 3);
  EXPECT_EQ(layers({"--preset=paper", "--task=valley"}), 5);
  EXPECT_EQ(layers({"--preset=paper", "--task=valley", "--attention=performer"}), 7);
  EXPECT_EQ(layers({"--preset=paper", "--attention=performer"}, {{"BOCHNER_TASK", "valley"}}), 7);
  EXPECT_EQ(error_of({"--preset=one", "--task=valley"}),
            "--preset: 'one' has no settings for the task 'valley'; it has bowl");
  EXPECT_EQ(error_of({"--preset=few", "--task=valley"}),
            "--preset: 'few' has no settings for the task 'valley'; it has bowl, other");
  EXPECT_EQ(error_of({"--preset=few", "--task=bowl"}), "no error");
  EXPECT_EQ(error_of({"--preset=papers"}),
            "--preset: there is no 'papers'; did you mean 'paper'? Valid: paper, one, nested, few");
  EXPECT_EQ(error_of({"--preset=paper.valley"}),
            "--preset: 'paper.valley' names a protocol and a task; say --preset=paper --task=valley");
  EXPECT_EQ(error_of({"--preset=paper.valley.performer"}),
            "--preset: 'paper.valley.performer' names a protocol and a task and a mechanism; say --preset=paper "
            "--task=valley --attention=performer");
  EXPECT_EQ(error_of({"--preset=papers.valley"}),
            "--preset: there is no 'papers.valley'; did you mean 'paper'? Valid: paper, one, nested, few");
  EXPECT_EQ(error_of({"--preset=nested"}), "preset nested:1: 'preset' cannot be set in a preset");
}

TEST(Config, OverridesOfAProtocolAreRecorded) {
  Loaded loaded;
  load(loaded, {"--preset=paper", "--steps=7", "--seed=3", "--threads=1", "--quiet", "--model.rate=0.25"});
  ASSERT_EQ(loaded.report.overrides.size(), 1U);
  EXPECT_EQ(loaded.report.overrides[0], (std::pair<std::string, std::string>("steps", "7")));
}

TEST(Config, UnknownNamesNameTheNearest) {
  EXPECT_EQ(error_of({"--model.layer=3"}), "--model.layer: there is no such option; did you mean --model.layers?");
  EXPECT_EQ(error_of({"--layers", "3"}), "--layers: there is no such option; did you mean --model.layers?");
  EXPECT_EQ(error_of({"--stpes=3"}), "--stpes: there is no such option; did you mean --steps?");
  EXPECT_EQ(error_of({"--attention=preformer"}),
            "--attention: there is no 'preformer'; did you mean 'performer'? Valid: softmax, linear-elu, performer");
  EXPECT_EQ(error_of({"--model.kernels=rks,fastfod"}),
            "--model.kernels: there is no 'fastfod'; did you mean 'fastfood'? Valid: rks, prf, fastfood");
}

TEST(Config, NamesOfOtherProgramsLeadToTheOptionMeant) {
  const auto end_of = [](const std::string& argument) {
    const std::string what = error_of({argument});
    const std::string start = argument.substr(0, argument.find('=')) + ": there is no such option";
    EXPECT_EQ(what.substr(0, start.size()), start) << what;
    return what.substr(start.size());
  };
  EXPECT_EQ(end_of("--lr=1e-3"), "; it is called --model.rate here");
  EXPECT_EQ(end_of("--model.learning_rate=1e-3"), "; it is called --model.rate here");
  EXPECT_EQ(end_of("--epochs=3"),
            "; it is called --steps here: training is counted in steps; an epoch is the number of training examples "
            "divided by --batch");
  EXPECT_EQ(end_of("--Num_Layers=3"), "; it is called --model.layers here");
  EXPECT_EQ(end_of("--batch-size=3"), "; it is called --batch here");
  EXPECT_EQ(end_of("--no-graphs"), "; say --graphs=false");
  EXPECT_EQ(end_of("--frobnicate=1"), "; --help lists the options");  // nothing is near
  EXPECT_EQ(end_of("-steps=3"), "; options begin with two dashes: --steps=3");
  EXPECT_EQ(end_of("-lr=3"), "; it is called --model.rate here");
  EXPECT_EQ(error_of({"-steps", "3"}), "-steps: there is no such option; options begin with two dashes: --steps");
  EXPECT_EQ(error_of({"steps=3"}), "unexpected argument 'steps=3'; options begin with two dashes: --steps=3");
  EXPECT_EQ(error_of({"--attention=xyzzy"}), "--attention: there is no 'xyzzy'; valid: softmax, linear-elu, performer");
}

TEST(Nearest, OfManyNamesSomeAreShown) {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  EXPECT_EQ(some_of(std::span(names).first(8)), "a, b, c, d, e, f, g, h");
  EXPECT_EQ(some_of(names), "a, b, c, d, e, f, g, h and 2 more");
}

TEST(Config, AMistakeNamesTheOption) {
  EXPECT_EQ(error_of({"--steps=many"}), "--steps: 'many' is not a whole number");
  EXPECT_EQ(error_of({"--steps=1.5"}), "--steps: '1.5' is not a whole number");
  EXPECT_EQ(error_of({"--steps=-1"}), "--steps: -1 is not at least 0");
  EXPECT_EQ(error_of({"--steps=99999999999999999999"}), "--steps: '99999999999999999999' is out of range");
  EXPECT_EQ(error_of({"--seed=-1"}), "--seed: '-1' is not a whole number of at least 0");
  EXPECT_EQ(error_of({"--model.rate=0"}), "--model.rate: 0 is not above 0");
  EXPECT_EQ(error_of({"--model.rate=nan"}), "--model.rate: 'nan' is not a finite number");
  EXPECT_EQ(error_of({"--model.rate=1e-3x"}), "--model.rate: '1e-3x' is not a number");
  EXPECT_EQ(error_of({"--model.bias=maybe"}), "--model.bias: 'maybe' is neither true nor false");
  EXPECT_EQ(error_of({"--model.sizes=1,,2"}), "--model.sizes: '' is not a whole number");
  EXPECT_EQ(error_of({"--model.sizes=1,"}), "--model.sizes: nothing follows the last comma");
  EXPECT_EQ(error_of({"--model.rates=0.5,1.5"}), "--model.rates: 1.5 is not above 0 and below 1");
  EXPECT_EQ(error_of({"--model.layers=65"}), "--model.layers: 65 is not at least 1 and at most 64");
  EXPECT_EQ(error_of({"--resume=ato"}), "--resume: there is no 'ato'; did you mean 'auto'? Valid: true, false, auto");
  EXPECT_EQ(error_of({"extra"}), "unexpected argument 'extra'; options begin with --");
  EXPECT_EQ(error_of({}, {{"BOCHNER_STEPS", "x"}}), "environment BOCHNER_STEPS: steps: 'x' is not a whole number");
  EXPECT_EQ(error_of({"--steps"}), "--steps: a value must follow");
  EXPECT_EQ(error_of({"--steps="}), "--steps: nothing follows the equals sign; give a value, or leave the option out");
}

TEST(Config, NumbersThatNothingCanBeMadeOfAreRefused) {
  const std::string end = " is more than 1000000000, the most that a whole number may be here";
  EXPECT_EQ(error_of({"--batch=1000000000000"}), "--batch: 1000000000000" + end);
  EXPECT_EQ(error_of({"--model.sizes=3,2000000000"}), "--model.sizes: 2000000000" + end);
  EXPECT_EQ(error_of({"--threads=100000"}), "--threads: 100000 is not at least 0 and at most 1024");
  EXPECT_EQ(error_of({"--seed=18446744073709551615"}), "no error");  // only a seed may be as large
}

TEST(Config, AValueAboveThatOfAnotherOptionIsWarnedOf) {
  struct Limited {
    int64_t steps = 10;
    int64_t warmup = 10;
    void fields(Fields& f) {
      f("steps", steps, "steps");
      f("warmup", warmup, "warm-up").warn_above("steps", "the rate stays low");
    }
  } limited;
  Fields fields = Fields::of(limited);
  EXPECT_TRUE(fields.warnings().empty());
  fields.at("warmup").assign("11");
  EXPECT_EQ(fields.warnings(), (std::vector<std::string>{"--warmup=11 is more than --steps=10: the rate stays low"}));
  fields.at("steps").assign("0");  // nothing is trained
  EXPECT_TRUE(fields.warnings().empty());
}

TEST(Config, UnknownVariablesAreToldNotObeyed) {
  Loaded loaded;
  load(loaded, {}, {{"BOCHNER_STEP", "3"}});
  ASSERT_EQ(loaded.report.warnings.size(), 1U);
  EXPECT_EQ(loaded.report.warnings[0],
            "environment BOCHNER_STEP: there is no such option, it is ignored; did you mean BOCHNER_STEPS?");
}

TEST(Config, VariablesOfTheEngineAreObeyedNotToldOf) {
  Loaded loaded;
  load(loaded, {}, {{"BOCHNER_BF16", "pairs"}, {"BOCHNER_NCCL", "libnccl.so.2"}});
  EXPECT_TRUE(loaded.report.warnings.empty()) << loaded.report.warnings[0];
  load(loaded, {}, {{"BOCHNER_BF61", "pairs"}});
  ASSERT_EQ(loaded.report.warnings.size(), 1U);
  EXPECT_EQ(loaded.report.warnings[0],
            "environment BOCHNER_BF61: there is no such option, it is ignored; did you mean BOCHNER_BF16?");
}

TEST(Config, BadFilesAreRefusedWithLineAndReason) {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "a.ini").string();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"steps\n", ":1: 'steps' is neither `key = value` nor `[section]`"},
      {"# fine\n\n= 3\n", ":3: '' is no name of an option"},
      {"[model\nlayers = 2\n", ":1: the section '[model' lacks its closing bracket"},
      {"[]\n", ":1: '' is no name of a section"},
      {"[Mo del]\n", ":1: 'Mo del' is no name of a section"},
      {"[model]\nlayer = 2\n", ":2: there is no option 'model.layer'; did you mean 'model.layers'?"},
      {"[model]\nlayers = two\n", ":2: model.layers: 'two' is not a whole number"},
      {"steps = 1\nsteps = 2\n", ":2: steps was given before, in line 1"},
      {"experiment = lra\n", ":1: these are settings of the experiment 'lra', but this is 'toy'"},
      {"resume = true\n", ":1: 'resume' cannot be set in a file"},
      {std::string("st\0eps = 1\n", 11), ":1: the line holds a control character; is this an INI file?"},
      {"task = \"bowl\n", ":1: the quote that opens is not closed"},
      {"task = \"bowl\" x\n", ":1: 'x' follows the closing quote; a quote within quotes is written twice"},
      {"[.]\n", ":1: '.' is no name of a section"},
      {"key with blanks = 1\n", ":1: 'key with blanks' is no name of an option"},
      {"steps =\n", ":1: steps: '' is not a whole number"},
      {"model.layers = 3\n[model]\nlayers = 4\n", ":3: model.layers was given before, in line 1"},
  };
  for (const auto& [text, message] : cases) {
    test::put(file, text);
    EXPECT_EQ(error_of({"--config=" + file}), file + message);
  }
  test::put(file, std::string(1 << 17, 'x'));
  EXPECT_NE(error_of({"--config=" + file}).find("has more than"), std::string::npos);
  test::put(file, std::string(3 << 20, '\n'));
  EXPECT_NE(error_of({"--config=" + file}).find("is this an INI file?"), std::string::npos);
  EXPECT_EQ(error_of({"--config=" + folder.path().string()}),
            "--config: " + folder.path().string() + " is a folder; name its config.ini");
  EXPECT_NE(error_of({"--config=" + (folder / "none.ini").string()}).find("cannot read"), std::string::npos);
}

TEST(Config, CommentsQuotesAndLineEndsAreRead) {
  const auto entries =
      parse_ini("\xef\xbb\xbf# c\r\na = 1 # one\r\n; c\r\n[s.t]\r\nb=\" x # y \"  # z\r\nc = p#q\r\nd =\r\n", "f");
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].value, "1");
  EXPECT_EQ(entries[1].name, "s.t.b");
  EXPECT_EQ(entries[1].value, " x # y ");
  EXPECT_EQ(entries[2].value, "p#q");
  EXPECT_EQ(entries[3].value, "");
  EXPECT_EQ(entries[3].line, 7);
}

TEST(Config, AQuoteWithinQuotesIsWrittenTwice) {
  const auto entries = parse_ini("a = \"say \"\"x\"\" # y\"  # the \"small\" one\nb = \"\"\nc = say \"x\"\n", "f");
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].value, "say \"x\" # y");
  EXPECT_EQ(entries[1].value, "");
  EXPECT_EQ(entries[2].value, "say \"x\"");
  for (const std::string value : {"\"", "\"\"", " \"a\" # ", "#\"", "a\"b", "\"a"}) {
    const auto again = parse_ini("x = " + ini_value(value), "f");
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].value, value);
  }
  EXPECT_EQ(test::message_of([] { parse_ini("a\xff = 1", "f"); }), "f:1: 'a\\xff' is no name of an option");
  for (const std::string text : {"a = \"b", "a = \"", "a = \"b\"\"", "a = \"b\" c", "a = \"b\"c\""}) {
    EXPECT_THROW(parse_ini(text, "f"), Error) << text;
  }
}

TEST(Config, TheDumpReadsBackToTheSameBits) {
  const test::TemporaryFolder folder;
  Loaded first;
  load(first, {"--model.rate=0.1", "--model.rates=0.30000000000000004,1e-300", "--model.salt=18446744073709551615",
               "--model.title= #1 \"quoted\" # x", "--model.bias=off", "--quiet", "--seed=12", "--preset=paper"});
  const std::string text = config_ini(experiment(), first.fields);
  test::put(folder / "config.ini", text);
  EXPECT_EQ(text.find("quiet"), std::string::npos);
  Loaded second;
  load(second, {"--config=" + (folder / "config.ini").string()});
  EXPECT_EQ(config_ini(experiment(), second.fields), text);
  EXPECT_EQ(second.config.model.rates, (std::vector<double>{0.30000000000000004, 1e-300}));
  EXPECT_EQ(second.config.model.salt, 18446744073709551615ULL);
  EXPECT_EQ(second.config.model.title, first.config.model.title);
  EXPECT_EQ(second.config.run.preset, "paper");
}

TEST(Config, WhatARunComputesStaysOpenInTheDumpUnlessItIsGiven) {
  Loaded loaded;
  load(loaded, {"--seed=12"});
  loaded.fields.computed_unless_given({"steps", "seed", "model.layers"});
  const std::string before = config_ini(experiment(), loaded.fields, false);
  EXPECT_NE(before.find("# steps: computed when the run begins\n"), std::string::npos) << before;
  EXPECT_NE(before.find("# layers: computed when the run begins\n"), std::string::npos) << before;
  EXPECT_NE(before.find("seed = 12\n"), std::string::npos) << before;
  const std::string begun = config_ini(experiment(), loaded.fields);
  EXPECT_EQ(begun.find("computed"), std::string::npos) << begun;
  const test::TemporaryFolder folder;
  test::put(folder / "config.ini", before);
  Loaded again;
  load(again, {"--config=" + (folder / "config.ini").string()});
  EXPECT_FALSE(again.fields.find("steps")->was_given());
  EXPECT_TRUE(again.fields.find("seed")->was_given());
}

TEST(Config, JsonNestsTheGroups) {
  Loaded loaded;
  load(loaded, {});
  const auto json = nlohmann::json::parse(loaded.fields.json());
  EXPECT_EQ(json["model"]["layers"], 2);
  EXPECT_EQ(json["model"]["sizes"], (std::vector<int>{64, 128}));
  EXPECT_EQ(json["task"], "bowl");
  EXPECT_FALSE(json.contains("resume"));
}

TEST(Config, AContinuedRunKeepsItsSettings) {
  Loaded first;
  load(first, {"--steps=100"});
  const std::string stored = config_ini(experiment(), first.fields);
  Loaded same;
  load(same, {"--steps=100", "--threads=1", "--quiet"});
  EXPECT_NO_THROW(require_same_config(same.fields, stored, "config.ini"));
  Loaded other;
  load(other, {"--steps=200", "--model.layers=4"});
  try {
    require_same_config(other.fields, stored, "config.ini");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "--resume: config.ini: steps is 200 but was 100, model.layers is 4 but was 2; a run goes on as it "
                 "began, start another with --out");
  }
  Loaded changed;
  load(changed, {"--steps=200", "--shards=4"});
  EXPECT_EQ(require_same_config(changed.fields, stored, "config.ini", changed.report.for_resume),
            (std::vector<std::string>{"steps", "shards"}));
}

TEST(Config, HelpTellsEveryOptionItsRuleAndItsPresentValue) {
  Loaded loaded;
  load(loaded, {"--preset=paper"});
  const std::string help = help_text(experiment(), loaded.fields);
  for (const std::string& name : loaded.fields.names()) {
    EXPECT_EQ(help.find("--" + name) == std::string::npos, name == "sequence-shards") << name;  // this one is refused
  }
  EXPECT_NE(help.find("--model.layers N (=3)"), std::string::npos) << help;
  EXPECT_NE(help.find("at least 1 and at most 64"), std::string::npos) << help;
}

TEST(Names, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("performer", "preformer"), 1);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);
  const std::vector<std::string> names = {"skyformer", "performer", "reformer", "linformer"};
  EXPECT_EQ(nearest("informer", names), "linformer");
  EXPECT_EQ(nearest("perfromer", names), "performer");
  EXPECT_EQ(nearest("x", std::vector<std::string>{}), "");
}

}  // namespace
}  // namespace bochner
