// Pretraining through the program: tiny texts, a tiny model, what its folder contains and what is reported about
// mistakes; and what batches contain.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "experiments/pretrain/problem.h"
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

/// Forty documents that count: each word follows from its neighbours.
class Pretrain : public ::testing::Test {
 protected:
  Pretrain() {
    const char* const words[] = {"one", "two", "three", "four", "five", "six", "seven"};
    std::filesystem::create_directories(folder_ / "texts");
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (int k = 0; k < 60; ++k) text += std::string(words[(i + k) % 7]) + (k % 9 == 8 ? "\n" : " ");
      put(folder_ / fmt::format("texts/{:02}.txt", i), text);
    }
  }

  Ended run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {BOCHNER_PRETRAIN, "--text=texts",     "--max-length=16",     "--batch=8",
                                    "--threads=1",    "--optim.warmup=5", "--model.dropout=0.1", "--optim.rate=1e-2"};
    const auto has = [&](const char* option) {
      return std::any_of(arguments.begin(), arguments.end(), [&](const auto& a) { return a.starts_with(option); });
    };
    const bool begun = has("--pretrained=");
    if (!begun) all.insert(all.end(), {"--model.layers=1", "--model.dim=16", "--model.heads=2", "--model.hidden=16"});
    if (!begun && !has("--vocab=")) all.emplace_back("--vocabulary-size=200");
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Process(all, folder_.path()).wait();
  }
  json results(const std::string& name) const { return json::parse(contents(folder_ / name / "results.json")); }
  double of_test(const std::string& name, const std::string& metric) const {
    return results(name)["metrics"]["test"][metric];
  }

  TemporaryFolder folder_;
};

TEST_F(Pretrain, LearnsWhatStandsBesideAHiddenWord) {
  const Ended ended = run({"--steps=600", "--out=a", "--model.dropout=0", "--model.deviation=0.2", "--model.dim=32",
                           "--optim.rate=5e-3", "--optim.warmup=30"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const json record = results("a");
  const double unigram = record["baselines"]["unigram"]["perplexity"];
  EXPECT_NEAR(unigram, 7, 1.5);
  EXPECT_LT(of_test("a", "perplexity"), unigram / 3);
  EXPECT_GT(of_test("a", "accuracy"), 0.7);
  EXPECT_NE(record["metrics"]["valid"]["loss"], record["metrics"]["test"]["loss"]);  // for other documents
  EXPECT_NEAR(record["derived"]["tokens_per_second"], 16 * 8 * record["steps_per_second"].get<double>(), 1);
  EXPECT_NE(record["remarks"].dump().find("one of each twenty documents"), std::string::npos) << record["remarks"];
  EXPECT_NE(record["data"].dump().find("train.i32"), std::string::npos);
  EXPECT_NE(ended.err.find("tokens per second"), std::string::npos) << ended.err;
}

TEST_F(Pretrain, LearnsInBf16AsInF32) {
  for (const std::string precision : {"f32", "bf16"}) {
    const Ended ended = run({"--steps=60", "--next-sentence", "--precision=" + precision, "--out=" + precision});
    ASSERT_EQ(ended.code, 0) << ended.err;
  }
  EXPECT_NEAR(of_test("bf16", "loss"), of_test("f32", "loss"), 0.05 * of_test("f32", "loss"));
}

TEST_F(Pretrain, TheModelIsAFolderForTransformers) {
  ASSERT_EQ(run({"--steps=5", "--out=a"}).code, 0);
  const std::filesystem::path model = folder_ / "a/model";
  const BertOptions options = read_bert_options(model);
  EXPECT_TRUE(options.masked_tokens && !options.pooler);
  EXPECT_EQ(json::parse(contents(model / "config.json"))["architectures"][0], "BertForMaskedLM");
  const WordpieceVocabulary vocabulary = read_pretrained_vocabulary(model);
  EXPECT_EQ(std::ssize(vocabulary.pieces), options.vocabulary);
  EXPECT_TRUE(vocabulary.options.lower_case);
  Generator init(1);
  Bert bert({}, options, init);
  EXPECT_TRUE(load_pretrained(bert, model).made_new.empty());
  const State best = State::load(folder_ / "a/checkpoint-best");
  const Tensor stored = best.tensors.at("blocks.0.attention.qkv.weight");
  EXPECT_EQ(bert.state().at("blocks.0.attention.qkv.weight").to_vector<float>(), stored.to_vector<float>());
  // And pretraining continues from it.
  const Ended more = run({"--steps=2", "--out=b", "--pretrained=a/model"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.err.find("made new: none"), std::string::npos) << more.err;
  for (const char* size : {"layers", "dim", "heads", "hidden", "deviation"}) {
    EXPECT_EQ(results("b")["model"][size], results("a")["model"][size]) << size;
  }
  // Without a step, it is the model with which pretraining would start.
  const Ended none = run({"--steps=0", "--out=c", "--pretrained=a/model"});
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(State::load(folder_ / "c/checkpoint-best").tensors.at("blocks.0.attention.qkv.weight").to_vector<float>(),
            stored.to_vector<float>());
  EXPECT_EQ(contents(folder_ / "c/model/model.safetensors"), contents(model / "model.safetensors"));
}

TEST_F(Pretrain, GoesOnInTheMiddleOfAnEpochBitForBit) {
  const auto steps = [&](const char* count, const char* out, const char* more) {
    return run({"--steps=" + std::string(count), "--optim.schedule=constant", "--optim.evaluate-every=3",
                "--out=" + std::string(out), "--next-sentence", more});
  };
  // 36 documents of 61 tokens give 168 examples of 13 words, 21 batches: the second epoch begins at step 21.
  ASSERT_EQ(steps("27", "whole", "--seed=1").code, 0);
  ASSERT_EQ(steps("24", "parts", "--seed=1").code, 0);
  const Ended ended = steps("27", "parts", "--resume");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(results("whole")["metrics"], results("parts")["metrics"]);
  EXPECT_EQ(contents(folder_ / "whole/model/model.safetensors"), contents(folder_ / "parts/model/model.safetensors"));
  EXPECT_TRUE(results("whole")["metrics"]["test"].contains("next-sentence"));
}

TEST_F(Pretrain, AnyAttentionIsReadAgain) {
  const Ended ended = run({"--steps=3", "--out=g", "--attention=gmm-prf", "--model.mechanism.features=12"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const json config = json::parse(contents(folder_ / "g/model/config.json"));
  EXPECT_EQ(config["model_type"], "bochner-bert");
  const BertOptions options = read_bert_options(folder_ / "g/model");
  EXPECT_EQ(options.attention.mechanism.name(), "gmm-prf");
  EXPECT_EQ(options.attention.mechanism.text("features"), "12");
  Generator init(1);
  Bert bert({}, options, init);
  EXPECT_TRUE(load_pretrained(bert, folder_ / "g/model").made_new.empty());
  ASSERT_EQ(run({"--steps=1", "--out=h", "--pretrained=g/model"}).code, 0);
  EXPECT_EQ(json::parse(contents(folder_ / "h/model/config.json"))["model_type"], "bochner-bert");
  EXPECT_NE(contents(folder_ / "h/config.ini").find("\nfeatures = 12\n"), std::string::npos);
  const Ended other = run({"--steps=1", "--out=i", "--pretrained=g/model", "--model.mechanism.features=16"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(
      other.err.find("--model.mechanism.features: leave it out; it counts only where --pretrained has no attention "
                     "of its own"),
      std::string::npos)
      << other.err;
  const Ended softmax = run({"--steps=1", "--out=i", "--attention=softmax", "--pretrained=g/model"});
  EXPECT_EQ(softmax.code, 2);
  EXPECT_NE(softmax.err.find("say --attention=gmm-prf"), std::string::npos) << softmax.err;
}

TEST_F(Pretrain, SinusoidalPositionsStayWhereAModelIsTrainedFurther) {
  ASSERT_EQ(run({"--steps=2", "--out=g", "--model.positions=sinusoidal"}).code, 0);
  ASSERT_EQ(run({"--steps=2", "--out=h", "--pretrained=g/model"}).code, 0);
  EXPECT_EQ(json::parse(contents(folder_ / "h/model/config.json"))["sinusoidal_pos_embds"], true);
  EXPECT_NE(contents(folder_ / "h/config.ini").find("\npositions = sinusoidal\n"), std::string::npos);
  const auto positions = [&](const char* model) {
    return read_safetensors(folder_ / model / "model.safetensors")
        .tensors.at("bert.embeddings.position_embeddings.weight")
        .to_vector<float>();
  };
  EXPECT_EQ(positions("h/model"), positions("g/model"));
  const Ended other = run({"--steps=1", "--out=i", "--pretrained=g/model", "--model.positions=learned"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--model.positions"), std::string::npos) << other.err;
}

TEST_F(Pretrain, SomeBlocksMayKeepSoftmax) {
  const Ended ended = run({"--steps=3", "--out=g", "--attention=performer", "--model.mechanism.features=12",
                           "--model.layers=3", "--model.attention-blocks=0,2"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(read_bert_options(folder_ / "g/model").attention_blocks, (std::vector<int64_t>{0, 2}));
  ASSERT_EQ(run({"--steps=1", "--out=h", "--pretrained=g/model"}).code, 0);
  EXPECT_EQ(read_bert_options(folder_ / "h/model").attention_blocks, (std::vector<int64_t>{0, 2}));
  EXPECT_NE(
      run({"--attention=performer", "--model.attention-blocks=1"}).err.find("there is no block 1; they are 0 to 0"),
      std::string::npos);
  EXPECT_NE(
      run({"--model.attention-blocks=0"})
          .err.find("--model.attention-blocks: leave it out; it counts only with another --attention than softmax"),
      std::string::npos);
}

TEST_F(Pretrain, ARunIsExported) {
  ASSERT_EQ(run({"--steps=3", "--out=a"}).code, 0);
  const auto exported = [&](const std::string& name, const std::string& to) {
    return Process({BOCHNER_PRETRAIN, "--export=" + name, "--to=" + to}, folder_.path()).wait();
  };
  const Ended finished = exported("a", "finished");
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out, "finished\n");
  std::filesystem::remove(folder_ / "a/results.json");
  const Ended half = exported("a", "half");
  ASSERT_EQ(half.code, 0) << half.err;
  EXPECT_NE(half.err.find("the run a is not finished; its best model so far is taken"), std::string::npos) << half.err;
  for (const char* file : {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}) {
    const std::string expected = contents(folder_ / "a/model" / file);
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(contents(folder_ / "finished" / file), expected) << file;
    EXPECT_EQ(contents(folder_ / "half" / file), expected) << file;
  }
  EXPECT_NE(exported("a", "a/model").err.find("name another"), std::string::npos);
}

/// The answer of --evaluate for the test set.
std::string tested(const Ended& ended) {
  EXPECT_EQ(ended.code, 0) << ended.err;
  const size_t line = ended.out.find("test: ");
  return line == std::string::npos ? "" : ended.out.substr(line);
}

TEST_F(Pretrain, AnswersAreOfTheVocabularyThatTheRunHasLearnedWith) {
  const auto asked = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), BOCHNER_PRETRAIN);
    return Process(arguments, folder_.path()).wait();
  };
  ASSERT_EQ(run({"--steps=5", "--out=a"}).code, 0);
  const std::string vocabulary = contents(folder_ / "a/model/vocab.txt");
  ASSERT_EQ(asked({"--predict=a"}).code, 0);
  EXPECT_TRUE(std::regex_search(contents(folder_ / "a/predictions.tsv"),
                                std::regex("\n0\t[0-9]+:[a-z#.\\[\\]A-Z]+ [0-9]+:[a-z#.\\[\\]A-Z]+\n")))
      << contents(folder_ / "a/predictions.tsv");
  put(folder_ / "texts/000.txt", "zebras zigzag zestfully 0123456789 aardvarks\n");
  const Ended evaluated = asked({"--evaluate=a"});
  EXPECT_EQ(tested(evaluated), tested(asked({"--evaluate=a", "--vocab=a/model/vocab.txt"})));
  EXPECT_EQ(evaluated.err.find("a vocabulary of"), std::string::npos) << evaluated.err;
  ASSERT_EQ(run({"--steps=2", "--init=a", "--out=b"}).code, 0);
  EXPECT_EQ(contents(folder_ / "b/model/vocab.txt"), vocabulary);
  ASSERT_EQ(run({"--steps=4", "--resume", "--out=b"}).code, 0);
  // One that ended before its first checkpoint begins anew, with the vocabulary of its initial weights.
  for (const char* file : {"checkpoint-last", "checkpoint-best", "results.json"})
    std::filesystem::remove(folder_ / "b" / file);
  std::filesystem::remove_all(folder_ / "b/model");
  const Ended anew = run({"--resume", "--out=b", "--init=a"});
  ASSERT_EQ(anew.code, 0) << anew.err;
  EXPECT_EQ(contents(folder_ / "b/model/vocab.txt"), vocabulary);
  ASSERT_EQ(run({"--steps=1", "--out=c"}).code, 0);
  EXPECT_NE(contents(folder_ / "c/model/vocab.txt"), vocabulary);
  const Ended other = asked({"--evaluate=a", "--vocab=c/model/vocab.txt"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("c/model/vocab.txt: has another vocabulary than a"), std::string::npos) << other.err;

  std::filesystem::remove(folder_ / "a/results.json");
  std::filesystem::remove_all(folder_ / "a/model");
  ASSERT_EQ(asked({"--export=a", "--to=half"}).code, 0);
  EXPECT_EQ(contents(folder_ / "half/vocab.txt"), vocabulary);
  // A run of an older version does not contain it.
  for (const char* file : {"a/checkpoint-last", "a/checkpoint-best"}) {
    State state = State::load(folder_ / file);
    ASSERT_EQ(state.values.erase("vocabulary"), 1U);
    state.save(folder_ / file);
  }
  const Ended older = asked({"--evaluate=a"});
  EXPECT_EQ(older.code, 2);
  EXPECT_NE(older.err.find("has learned with the vocabulary of other texts"), std::string::npos) << older.err;
  std::filesystem::remove(folder_ / "texts/000.txt");
  EXPECT_EQ(asked({"--evaluate=a"}).code, 0);
}

TEST_F(Pretrain, ItsVocabularyIsNotTakenForAPublishedOne) {
  ASSERT_EQ(run({"--steps=1", "--out=a"}).code, 0);
  for (const char* from : {"--vocab=a/model/vocab.txt", "--pretrained=a/model"}) {
    const Ended ended = run({"--steps=1", "--out=b", from});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err.find("published"), std::string::npos) << ended.err;
    EXPECT_NE(results("b")["data"].dump().find("a/model/"), std::string::npos);
    std::filesystem::remove_all(folder_ / "b");
  }
}

TEST_F(Pretrain, ATokenizerInAFolderIsWrittenAsItIs) {
  ASSERT_EQ(run({"--steps=1", "--out=a"}).code, 0);
  std::filesystem::create_directories(folder_ / "own");
  std::filesystem::copy(folder_ / "a/model/vocab.txt", folder_ / "own/vocab.txt");
  put(folder_ / "own/tokenizer_config.json",
      R"({"do_lower_case": true, "strip_accents": false, "tokenize_chinese_chars": false, "model_max_length": 512})");
  const Ended ended = run({"--steps=1", "--vocab=own", "--out=b"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const WordpieceOptions options = read_pretrained_vocabulary(folder_ / "b/model").options;
  EXPECT_TRUE(options.lower_case && options.strip_accents && !*options.strip_accents && !options.split_chinese);
  EXPECT_EQ(contents(folder_ / "b/model/vocab.txt"), contents(folder_ / "own/vocab.txt"));
  // Except for the length, which is the model's.
  const json config = json::parse(contents(folder_ / "b/model/tokenizer_config.json"));
  EXPECT_EQ(config["model_max_length"], 16);
  const Ended refused = run({"--vocab=own", "--lower-case=false"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--lower-case: leave it out; it counts only without --pretrained or a folder as --vocab"),
            std::string::npos)
      << refused.err;
}

TEST_F(Pretrain, MistakesAreToldInOneLine) {
  const auto told = [&](const std::vector<std::string>& arguments, const std::string& text) {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 2) << text;
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  };
  const Ended without = Process({BOCHNER_PRETRAIN}, folder_.path()).wait();
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("--text: name files, folders or archives of text"), std::string::npos) << without.err;
  told({"--text=nowhere.txt"}, "nowhere.txt: there is no such text");
  put(folder_ / "config.ini", "");
  told({"--text=nowhere.txt", "--out=."}, ". holds a run already");
  told({"--max-length=4000"}, "fewer than the 3998 of one example");
  put(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\none\n");
  told({"--vocab=vocab.txt"}, "[MASK]");
  told({"--vocab=vocab.txt", "--pretrained=a"}, "--vocab and --pretrained: name one of the two");
  told({"--pretrained=a", "--model.dim=16"}, "--model.dim: leave it out; it counts only without --pretrained");
  told({"--vocab=vocab.txt", "--vocabulary-size=9"},
       "--vocabulary-size: leave it out; it counts only without --vocab and --pretrained");
}

TEST_F(Pretrain, EveryPresetIsOneOfTheProgram) {
  for (const auto& entry : std::filesystem::directory_iterator(BOCHNER_SOURCE_DIR "/experiments/pretrain/presets")) {
    const std::string name = entry.path().stem().string();
    const Ended ended = run({"--preset=" + name, "--dump-config"});
    // KL's footnote 2, as in the presets with which its models are tuned.
    EXPECT_EQ(ended.out.find("mixture = tied\n") != std::string::npos, name == "kl") << ended.out;
    EXPECT_EQ(ended.code, 0) << entry.path() << ended.err;
  }
}

TEST_F(Pretrain, BatchesHoldTwoHalvesThatBelongTogetherOrNot) {
  const text::TokenCache cache =
      text::token_cache(folder_ / "tokens", {.texts = {(folder_ / "texts").string()}}, [](const std::string&) {});
  const WordpieceVocabulary& vocabulary = cache.tokenizer->vocabulary();
  const auto stream = std::make_shared<const text::TokenStream>(cache, cache.train, 13);
  LoaderOptions order;
  order.batch_size = 8;
  pretrain::PieceFeed feed(stream, vocabulary, order, true, 3, Masks::anew);
  int64_t follows = 0;
  int64_t others = 0;
  std::vector<int64_t> own(13);
  for (int64_t step = 0; step < feed.steps_per_epoch(); ++step) {
    const Examples batch = feed.next();
    const auto next = batch.at("next").to_vector<int64_t>();
    for (int64_t i = 0; i < batch.size(); ++i) {
      const auto ids = batch.at("ids").slice(0, i, i + 1).to_vector<int64_t>();
      const auto types = batch.at("types").slice(0, i, i + 1).to_vector<int64_t>();
      stream->copy_tokens(batch.numbers[static_cast<size_t>(i)], 0, own);
      ASSERT_EQ(ids.size(), 16U);
      EXPECT_EQ(ids.front(), vocabulary.begin);
      EXPECT_EQ(ids.back(), vocabulary.end);
      const auto second = std::find(types.begin(), types.end(), 1) - types.begin();
      EXPECT_EQ(ids[static_cast<size_t>(second - 1)], vocabulary.end);
      EXPECT_EQ(std::count(types.begin(), types.end(), 1), 16 - second);
      const std::vector<int64_t> first(ids.begin() + 1, ids.begin() + second - 1);
      EXPECT_TRUE(std::equal(first.begin(), first.end(), own.begin()));
      const bool is_own = std::equal(own.begin() + std::ssize(first), own.end(), ids.begin() + second);
      if (next[static_cast<size_t>(i)] == 0) {
        EXPECT_TRUE(is_own);
      }
      follows += next[static_cast<size_t>(i)] == 0 ? 1 : 0;
      others += next[static_cast<size_t>(i)] == 1 && !is_own ? 1 : 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(follows) / static_cast<double>(feed.examples()), 0.5, 0.12);
  EXPECT_GT(others, feed.examples() / 4);  // by chance, another piece may continue in the same way
}

// If all words are different, each one tells where it was.
TEST_F(Pretrain, WhatDoesNotFollowIsTheEndOfAnyOtherPiece) {
  constexpr int64_t kPieces = 20;
  constexpr int64_t kLength = 13;
  std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  std::string words;
  for (int64_t i = 0; i < kPieces * kLength; ++i) {
    pieces += fmt::format("w{}\n", i);
    words += fmt::format("w{} ", i);
  }
  put(folder_ / "vocab.txt", pieces);
  put(folder_ / "words.txt", words);
  const text::TokenCache cache = text::token_cache(
      folder_ / "tokens", {.texts = {(folder_ / "words.txt").string()}, .vocabulary = folder_ / "vocab.txt"},
      [](const std::string&) {});
  const auto stream = std::make_shared<const text::TokenStream>(cache, cache.train, kLength);
  ASSERT_EQ(stream->size(), kPieces);
  pretrain::PieceFeed feed(stream, cache.tokenizer->vocabulary(), {.batch_size = 4}, true, 3, Masks::anew);
  std::set<int64_t> distances;
  for (int64_t step = 0; step < 10 * feed.steps_per_epoch(); ++step) {
    const Examples batch = feed.next();
    for (int64_t i = 0; i < batch.size(); ++i) {
      const auto ids = batch.at("ids").select(0, i).to_vector<int64_t>();
      const auto types = batch.at("types").select(0, i).to_vector<int64_t>();
      const int64_t second = std::find(types.begin(), types.end(), 1) - types.begin();
      const int64_t cut = second - 2;  // tokens of the first text, between [CLS] and [SEP]
      const int64_t own = batch.numbers[static_cast<size_t>(i)];
      const bool follows = batch.at("next").data<int64_t>()[i] == 0;
      const int64_t from = (ids[static_cast<size_t>(second)] - 5) / kLength;
      EXPECT_EQ(from == own, follows);
      for (int64_t k = cut; k < kLength; ++k) {
        EXPECT_EQ(ids[static_cast<size_t>(k + 2)], 5 + from * kLength + k);
      }
      if (!follows) distances.insert((from - own + kPieces) % kPieces);
    }
  }
  EXPECT_GT(distances.size(), 14U);  // of 19, in about 100 draws
}

}  // namespace
}  // namespace bochner
