// Conversion of a tiny BERT from softmax to other attentions: what is learnt, what stays the same, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/sha256.h"
#include "experiments/convert/distillation.h"
#include "layers/models/hugging_face.h"
#include "tests/experiments/process.h"
#include "tests/experiments/tiny_bert.h"

namespace bochner {
namespace {

using convert::Distillation;
using convert::Match;
using nlohmann::json;
using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::TemporaryFolder;

Examples one_batch(const Tensor& ids, const Tensor& mask = {}) {
  Examples batch{.tensors = {{"ids", ids}}, .numbers = std::vector<int64_t>(static_cast<size_t>(ids.size(0)))};
  if (mask.defined()) batch.tensors.emplace_back("mask", mask);
  return batch;
}

/// Steps on one batch, at a constant rate.
class Steps {
 public:
  Steps(Distillation& distillation, const Examples& batch, double rate)
      : learner_(one_by_one(), {.rate = rate}, distillation.problem(std::make_unique<Same>(batch), {batch})) {}
  double next() { return learner_.step(step_++).loss.item(); }

 private:
  class Same final : public Feed {
   public:
    explicit Same(Examples batch) : batch_(std::move(batch)) {}
    Examples next() override { return batch_; }
    void go_to(int64_t) override {}
    int64_t steps_per_epoch() const override { return 1; }
    int64_t examples() const override { return batch_.size(); }

   private:
    Examples batch_;
  };
  static RunOptions one_by_one() {
    RunOptions run;
    run.graphs = false;
    return run;
  }

  Learner learner_;
  int64_t step_ = 0;
};

/// A folder `model`, with the tokenizer of tests/golden/wordpiece, which has 234 ids, and a folder of texts.
class Convert : public ::testing::Test {
 protected:
  Convert() {
    test::save_tiny_bert(folder_ / "model", {.deviation = 0.8});  // weights that are far from equal
    Generator letters(1);
    std::filesystem::create_directories(folder_ / "texts");
    for (int i = 0; i < 200; ++i) {
      std::string text;
      for (int k = 0; k < 60; ++k) text += std::string(1, static_cast<char>('a' + letters.below(26))) + " ";
      put(folder_ / fmt::format("texts/{:02}.txt", i), text);
    }
  }

  Ended run(std::vector<std::string> arguments, const std::string& text = "--text=texts") const {
    const std::vector<std::string> small = {BOCHNER_CONVERT,   "--pretrained=model", text,          "--to=new",
                                            "--max-length=16", "--batch=8",          "--threads=1", "--steps=200"};
    arguments.insert(arguments.begin(), small.begin(), small.end());
    return Process(arguments, folder_.path()).wait();
  }
  json record() const { return json::parse(contents(folder_ / "new/conversion.json")); }

  TemporaryFolder folder_;
};

TEST_F(Convert, TheMechanismFollowsSoftmaxAndNothingElseChanges) {
  const Ended ended = run({"--attention=hedgehog"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("last states"), std::string::npos) << ended.out;
  ASSERT_EQ(record()["blocks"].size(), 2U);
  const json conversion = record();
  for (const json& block : conversion["blocks"])
    EXPECT_LT(block["after"], 0.85 * block["before"].get<double>()) << block;
  const json data = record()["data"];
  EXPECT_TRUE(std::any_of(data.begin(), data.end(), [&](const json& read) {
    return read["file"] == "model/model.safetensors" &&
           read["sha256"] == sha256_of_file(folder_ / "model/model.safetensors");
  })) << data;
  EXPECT_NE(data.dump().find("train.i32"), std::string::npos) << data;
  EXPECT_EQ(record()["learnt"], 2 * 2 * 2 * 4 * 4);  // blocks, W of queries and keys, heads, 4 x 4
  Generator init(2);
  Bert before({}, read_bert_options(folder_ / "model"), init);
  load_pretrained(before, folder_ / "model");
  const BertOptions options = read_bert_options(folder_ / "new");
  EXPECT_EQ(options.attention.mechanism.name(), "hedgehog");
  Bert after({}, options, init);
  EXPECT_TRUE(load_pretrained(after, folder_ / "new").made_new.empty());
  const auto state = after.state();
  for (const auto& [name, tensor] : before.state()) {
    EXPECT_EQ(state.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
  }
  EXPECT_EQ(state.size(), before.state().size() + 4);
}

TEST_F(Convert, ProgramsTakeTheAttentionOfTheFolder) {
  ASSERT_EQ(run({"--attention=gmm-prf", "--steps=1", "--model.mechanism.features=16"}).code, 0);
  const auto bert = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {BOCHNER_BERT, "--pretrained=new", "--to=again"});
    return Process(more, folder_.path()).wait();
  };
  const Ended ended = bert({});
  ASSERT_EQ(ended.code, 2);  // it is a folder for transformers, which does not have this attention
  EXPECT_NE(ended.err.find("gmm-prf"), std::string::npos) << ended.err;
  const Ended dumped = Process({BOCHNER_GLUE, "--pretrained=new", "--dump-config"}, folder_.path()).wait();
  ASSERT_EQ(dumped.code, 0) << dumped.err;
  EXPECT_NE(dumped.out.find("attention = gmm-prf"), std::string::npos) << dumped.out;
  const Ended other = bert({"--attention=hedgehog"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("has the attention gmm-prf"), std::string::npos) << other.err;
}

TEST_F(Convert, WhatLearnsNothingIsMeasured) {
  ASSERT_EQ(run({"--attention=performer", "--model.attention-blocks=1", "--model.mechanism.features=16"}).code, 0);
  ASSERT_EQ(record()["blocks"].size(), 1U);
  EXPECT_EQ(record()["blocks"][0]["block"], 1);
  EXPECT_GT(record()["blocks"][0]["before"], 0.01);
  EXPECT_EQ(record()["blocks"][0]["before"], record()["blocks"][0]["after"]);
  EXPECT_EQ(record()["steps"], 0);
  const BertOptions options = read_bert_options(folder_ / "new");
  EXPECT_EQ(options.attention_blocks, std::vector<int64_t>{1});
  EXPECT_EQ(options.attention.mechanism.text("features"), "16");
}

TEST_F(Convert, ARunThatWasStoppedGoesOnToTheSameModel) {
  const auto steps = [&](const std::string& count, const std::string& out, const std::string& resume) {
    const Ended ended =
        Process({BOCHNER_CONVERT, "--pretrained=model", "--text=texts", "--max-length=16", "--batch=8", "--threads=1",
                 "--optim.schedule=constant", "--steps=" + count, "--out=" + out, resume},
                folder_.path())
            .wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(contents(folder_ / out / "results.json"));
  };
  const json whole = steps("40", "whole", "--quiet");
  EXPECT_EQ(whole["baselines"]["hedgehog, not fitted"]["error-of-states"],
            json::parse(contents(folder_ / "whole/model/conversion.json"))["model"]["before"]);
  steps("10", "parts", "--quiet");
  // What it has learnt so far is kept, without the weights that stay in the folder of the softmax model.
  EXPECT_LT(std::filesystem::file_size(folder_ / "parts/checkpoint-best"),
            std::filesystem::file_size(folder_ / "model/model.safetensors"));
  const json parts = steps("40", "parts", "--resume");
  EXPECT_EQ(parts["metrics"]["test"], whole["metrics"]["test"]);
  EXPECT_EQ(sha256_of_file(folder_ / "parts/model/model.safetensors"),
            sha256_of_file(folder_ / "whole/model/model.safetensors"));
}

TEST_F(Convert, InBf16WhatIsLearntIsAsClose) {
  ASSERT_EQ(run({"--attention=hedgehog"}).code, 0);
  const json f32 = record();
  std::filesystem::remove_all(folder_ / "new");
  const Ended ended = run({"--attention=hedgehog", "--precision=bf16"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const json bf16 = record();
  EXPECT_EQ(bf16["precision"], "bf16");
  EXPECT_NE(bf16["model"]["after"], f32["model"]["after"]);
  for (size_t i = 0; i < 2; ++i) {
    const double expected = f32["blocks"][i]["after"];
    EXPECT_NEAR(bf16["blocks"][i]["after"], expected, 0.05 * expected) << i;
  }
}

TEST_F(Convert, TheLossIsTheMeanOverBlocksOfTheirRelativeSquares) {
  Generator draw(3);
  const Examples batch = one_batch(integers({4, 12}, 5, 234, draw));
  Distillation one(folder_ / "model", "hedgehog", "0", Device::cpu(), 1);
  Distillation other(folder_ / "model", "hedgehog", "1", Device::cpu(), 1);
  Distillation both(folder_ / "model", "hedgehog", "", Device::cpu(), 1);
  const std::vector<double> apart = both.apart({batch});
  ASSERT_EQ(apart.size(), 3U);
  const double loss = Steps(both, batch, 1e-3).next();
  EXPECT_NEAR(loss, (apart[0] * apart[0] + apart[1] * apart[1]) / 2, 1e-5);
  EXPECT_NEAR(loss, (Steps(one, batch, 1e-3).next() + Steps(other, batch, 1e-3).next()) / 2, 1e-6);
  // A block learns the same whether or not others are converted.
  EXPECT_NEAR(both.apart({batch})[0], one.apart({batch})[0], 1e-5);
  EXPECT_NEAR(both.apart({batch})[1], other.apart({batch})[0], 1e-5);
}

TEST_F(Convert, TheDivergenceOfWeightsIsThatOfTheirRows) {
  Generator draw(3);
  const Examples batch = one_batch(integers({4, 12}, 5, 234, draw));
  const auto weights_of = [&](Bert& model, const Tensor& x) {
    Context context{draw, false};
    return model.blocks()[0].attention().weights(Variable(x), {}, context).value();
  };
  Generator init(2);
  Bert softmax({}, read_bert_options(folder_ / "model"), init);
  load_pretrained(softmax, folder_ / "model");
  std::vector<Variable> states;
  Context context{draw, false};
  softmax.forward({batch.at("ids")}, context, &states);
  Distillation distillation(folder_ / "model", "hedgehog", "0", Device::cpu(), 1, Match::weights);
  const std::vector<float> t = weights_of(softmax, states[0].value()).to_vector<float>();
  const std::vector<float> s = weights_of(distillation.student(), states[0].value()).to_vector<float>();
  ASSERT_EQ(t.size(), 4U * 2 * 12 * 12);
  double expected = 0;
  double total = 0;
  for (size_t i = 0; i < t.size(); ++i) {
    expected += t[i] * std::log(t[i] / s[i]);
    total += s[i];
  }
  EXPECT_NEAR(total, 4 * 2 * 12, 1e-3);  // rows of weights add to 1
  Steps steps(distillation, batch, 1e-2);
  const double loss = steps.next();
  EXPECT_NEAR(loss, expected / (4 * 2 * 12), 1e-5);
  EXPECT_LT(steps.next(), loss);
}

TEST_F(Convert, StatesAreThoseBehindTheBlocksOfTheConvertedModel) {
  Generator draw(3);
  const Examples batch = one_batch(integers({4, 12}, 5, 234, draw));
  for (const char* blocks : {"", "1"}) {
    Distillation distillation(folder_ / "model", "hedgehog", blocks, Device::cpu(), 1, Match::states);
    Generator init(2);
    Bert softmax({}, read_bert_options(folder_ / "model"), init);
    load_pretrained(softmax, folder_ / "model");
    Context context{draw, false};
    std::vector<Variable> t;
    std::vector<Variable> s;
    softmax.forward({batch.at("ids")}, context, &t);
    distillation.student().forward({batch.at("ids")}, context, &s);
    ASSERT_EQ(t.size(), 3U);
    double expected = 0;
    const size_t first = std::string(blocks).empty() ? 1 : 2;
    for (size_t i = first; i < 3; ++i) {
      const std::vector<float> target = t[i].value().to_vector<float>();
      const std::vector<float> found = s[i].value().to_vector<float>();
      double apart = 0;
      double norm = 0;
      for (size_t k = 0; k < target.size(); ++k) {
        apart += (found[k] - target[k]) * (found[k] - target[k]);
        norm += target[k] * target[k];
      }
      expected += apart / norm;
    }
    expected /= static_cast<double>(3 - first);
    Steps steps(distillation, batch, 1e-2);
    const double loss = steps.next();
    EXPECT_NEAR(loss, expected, 1e-5 * expected);
    for (int i = 0; i < 5; ++i) steps.next();
    EXPECT_LT(steps.next(), 0.9 * loss);
  }
}

TEST_F(Convert, FittedToStatesTheConvertedModelIsCloserAndHasItsDropout) {
  ASSERT_EQ(run({"--attention=hedgehog"}).code, 0);
  const double outputs = record()["model"]["after"];
  std::filesystem::remove_all(folder_ / "new");
  ASSERT_EQ(run({"--attention=hedgehog", "--match=states"}).code, 0);
  EXPECT_LT(record()["model"]["after"], outputs);
  EXPECT_EQ(read_bert_options(folder_ / "new").dropout, read_bert_options(folder_ / "model").dropout);
}

TEST_F(Convert, PaddingCountsForNothing) {
  Generator draw(3);
  const Tensor ids = integers({2, 12}, 5, 234, draw);
  Tensor mask = Tensor::full({2, 12}, 1, DType::boolean);
  mask.slice(0, 1, 2).slice(1, 7, 12).fill_(0);
  Tensor other = ids.clone();
  other.slice(0, 1, 2).slice(1, 7, 12).fill_(9);
  for (const Match match : {Match::outputs, Match::weights, Match::states}) {
    const auto model = [&] { return Distillation(folder_ / "model", "hedgehog", "", Device::cpu(), 1, match); };
    const auto first = [&](const Examples& batch) {
      Distillation distillation = model();
      return Steps(distillation, batch, 1e-2).next();
    };
    EXPECT_EQ(first(one_batch(ids, mask)), first(one_batch(other, mask)));
    EXPECT_NE(first(one_batch(ids, mask)), first(one_batch(ids)));
    Distillation whole = model();
    Distillation padded = model();
    const Examples row = one_batch(ids.slice(0, 1, 2).slice(1, 0, 7));
    const Examples longer = one_batch(ids.slice(0, 1, 2), mask.slice(0, 1, 2));
    EXPECT_NEAR(whole.apart({row})[2], padded.apart({longer})[2], 1e-6);
    Steps of_row(whole, row, 1e-2);
    Steps of_longer(padded, longer, 1e-2);
    EXPECT_NEAR(of_row.next(), of_longer.next(), 1e-6);
    EXPECT_NEAR(of_row.next(), of_longer.next(), 1e-5);  // what was learnt is also the same
  }
}

TEST_F(Convert, LearnsFromThePairsOfATaskOfGlue) {
  std::filesystem::create_directories(folder_ / "data/glue/RTE");
  std::string rows = "index\tsentence1\tsentence2\tlabel\n";
  for (int i = 0; i < 60; ++i) rows += fmt::format("{}\ta b c {}\tx y\tentailment\n", i, i % 7);
  put(folder_ / "data/glue/RTE/train.tsv", rows);
  const Ended ended = run({"--data=data"}, "--text-of=rte");
  ASSERT_EQ(ended.code, 0) << ended.err;
  const json conversion = record();
  EXPECT_EQ(conversion["text-of"], "rte");
  for (const json& block : conversion["blocks"])
    EXPECT_LT(block["after"], 0.85 * block["before"].get<double>()) << block;
  std::filesystem::remove_all(folder_ / "new");
  const Ended two = run({"--text-of=rte", "--data=data"});
  EXPECT_EQ(two.code, 2);
  EXPECT_NE(two.err.find("either files by --text, or a task of GLUE by --text-of"), std::string::npos) << two.err;
  const Ended few = run({"--data=data", "--batch=40"}, "--text-of=rte");
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.err.find("60 rows are too few for a batch of 40"), std::string::npos) << few.err;
}

TEST_F(Convert, WeightsThatMayBeNegativeAreRefused) {
  const Ended ended = run({"--attention=gmm-rks", "--match=weights", "--model.mechanism.features=16"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("--match=weights: gmm-rks weighs some values by less than 0"), std::string::npos)
      << ended.err;
}

// A training run that came to nothing is not a mistake in the command, so its exit code is different.
TEST_F(Convert, ALossThatIsNotFiniteEndsTheRun) {
  const Ended ended = run({"--attention=gmm-prf", "--optim.rate=1e30", "--model.mechanism.features=16"});
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_NE(ended.err.find("first layer whose output is not finite"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("-nan"), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
}

TEST_F(Convert, MistakesAreToldInOneLine) {
  const auto told = [&](const std::vector<std::string>& arguments, const std::string& text) {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 2) << text;
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  };
  told({"--attention=softmax"}, "name the mechanism that is to take the place of softmax");
  told({"--model.attention-blocks=7"}, "there is no block 7; they are 0 to 1");
  told({"--seeds=2"}, "--to=new: takes the model of one run; leave it out with --seeds=2");
  told({"--max-length=64"}, "the model has 32 positions");
  told({"--text=nowhere"}, "there is no such text");
  put(folder_ / "file", "");
  told({"--to=file/new", "--text=nowhere"},
       "cannot write in the folder file/new: Not a directory; name another with --to");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
  ASSERT_EQ(run({"--steps=1"}).code, 0);
  told({"--text=nowhere"}, "--to=new: that folder holds files already; name another");
  told({"--pretrained=new", "--to=newer"}, "has the attention hedgehog already");
}

}  // namespace
}  // namespace bochner
