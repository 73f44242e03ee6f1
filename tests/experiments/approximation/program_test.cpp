// The program of the approximation experiment.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "datasets/tokenizers/wordpiece.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "experiments/approximation/pretrained.h"
#include "tests/experiments/process.h"
#include "tests/experiments/tiny_bert.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;

/// A BERT with 2 blocks of 2 heads in `model`, whose weights are larger than config.json says for new ones, and `texts`
/// of 1 and of 20 words.
void put_model_and_texts(const TemporaryFolder& folder) {
  test::save_tiny_bert(folder / "model", {.deviation = 0.8});
  nlohmann::json config = nlohmann::json::parse(test::contents(folder / "model/config.json"));
  config["initializer_range"] = 0.02;
  test::put(folder / "model/config.json", config.dump());
  std::filesystem::create_directories(folder / "texts");
  std::string words;
  for (const char letter : std::string("abcdefghijklmnopqrst")) words += std::string(1, letter) + " ";
  test::put(folder / "texts/1.txt", "a\n");
  test::put(folder / "texts/2.txt", words.substr(0, 20) + "\n" + words.substr(20) + "\n");
  test::put(folder / "texts/3.txt", "b " + words);
}

TEST(Approximation, PiecesAreTheFirstTokensOfDocumentsThatAreLongEnough) {
  const TemporaryFolder folder;
  put_model_and_texts(folder);
  const std::vector<Tensor> pieces = pieces_of({folder / "texts"}, folder / "model", 8, 2);
  const Wordpiece tokenizer(read_pretrained_vocabulary(folder / "model"));
  Wordpiece::Encoder encoder(tokenizer);
  ASSERT_EQ(pieces.size(), 2U);
  const char* const begins[] = {"a b c d e f", "b a b c d e"};
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<int32_t> ids = encoder.encode(begins[i]).ids;
    EXPECT_EQ(pieces[i].shape(), Shape({1, 8}));
    EXPECT_EQ(pieces[i].to_vector<int64_t>(), std::vector<int64_t>(ids.begin(), ids.end()));
  }
  EXPECT_NE(test::message_of([&] {
              pieces_of({folder / "texts"}, folder / "model", 8, 3);
            }).find("2 documents of at least 6 tokens, but 3 are asked for"),
            std::string::npos);
}

Ended approximation(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  const bool draws = std::ranges::find(arguments, "--task=regions") == arguments.end();
  if (draws) arguments.insert(arguments.begin(), "--repeats=2");
  arguments.insert(arguments.begin(), {BOCHNER_APPROXIMATION, "--out=run"});
  return Process(arguments, folder.path()).wait();
}

nlohmann::json results(const TemporaryFolder& folder) {
  return nlohmann::json::parse(test::contents(folder / "run/results.json"));
}

TEST(ApproximationProgram, Regions) {
  const TemporaryFolder folder;
  const Ended ended = approximation(folder, {"--task=regions"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto figures = results(folder).at("figures");
  ASSERT_EQ(figures.size(), 2U);
  for (const auto& curve : figures[0].at("curves")) {  // Fig. 2: positive features gain with the angle
    EXPECT_LT(curve.at("points").front().at(1), 0);
    EXPECT_GT(curve.at("points").back().at(1), 0);
  }
  EXPECT_NE(test::contents(folder / "run/report.html").find("Performer, Fig. 2"), std::string::npos);
}

TEST(ApproximationProgram, FeaturesForEachScale) {
  const TemporaryFolder folder;
  const Ended ended =
      approximation(folder, {"--task=features", "--length=32", "--features=8,64", "--scales=0.25,0.5", "--dim=4"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto record = results(folder);
  ASSERT_EQ(record.at("figures").size(), 2U);
  for (const auto& figure : record.at("figures")) {
    ASSERT_EQ(figure.at("curves").size(), 4U);
    for (const auto& curve : figure.at("curves")) EXPECT_EQ(curve.at("points").size(), 2U);
  }
  EXPECT_EQ(record.at("tables").at(0).at("rows").size(), 7U);  // four estimators, three ratios
  EXPECT_NE(ended.out.find("Performer, Fig. 4"), std::string::npos) << ended.out;
}

TEST(ApproximationProgram, Layers) {
  const TemporaryFolder folder;
  const Ended ended = approximation(
      folder, {"--task=layers", "--length=16", "--features=8", "--layers=3", "--dim=4", "--heads=2", "--hidden=8"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto figures = results(folder).at("figures");
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_EQ(figures[0].at("curves").at(0).at("points").size(), 3U);
}

TEST(ApproximationProgram, SpectralOfRandomAndOfImportedTensors) {
  const TemporaryFolder folder;
  const std::vector<std::string> sizes = {"--task=spectral", "--features=4,8", "--lengths=8,16"};
  std::vector<std::string> arguments = sizes;
  arguments.insert(arguments.end(), {"--dim=4", "--scales=0.5,1"});
  Ended ended = approximation(folder, arguments);
  ASSERT_EQ(ended.code, 0) << ended.err;
  ASSERT_EQ(results(folder).at("figures").size(), 4U);
  std::filesystem::remove_all(folder / "run");

  Generator generator(1);
  TensorMap map;
  for (const char* name : {"Q", "K", "V"}) map[name] = normal({2, 3, 12, 4}, generator);
  write_safetensors(folder / "qkv.safetensors", map);
  arguments = sizes;
  arguments.emplace_back("--qkv=qkv.safetensors");
  ended = approximation(folder, arguments);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto figures = results(folder).at("figures");
  ASSERT_EQ(figures.size(), 1U);  // 12 tokens contain the first 8, not 16
  EXPECT_NE(figures[0].at("title").get<std::string>().find("L = 8, Q and K of qkv.safetensors"), std::string::npos);
  EXPECT_EQ(figures[0].at("curves").size(), 4U);
}

TEST(ApproximationProgram, SpectralOfAPretrainedModel) {
  const TemporaryFolder folder;
  put_model_and_texts(folder);
  const std::vector<std::string> options = {"--task=spectral", "--features=2,64", "--lengths=8,1000",
                                            "--pretrained=model", "--methods=nystrom,performer"};
  std::vector<std::string> arguments = options;
  arguments.emplace_back("--text=texts");
  Ended ended = approximation(folder, arguments);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const nlohmann::json record = results(folder);
  ASSERT_EQ(record.at("figures").size(), 2U);  // the model reads 32 tokens, not 1000
  EXPECT_NE(ended.err.find("--lengths: 1000 is left out, as the model has 32 positions"), std::string::npos);
  ASSERT_EQ(record.at("tables").size(), 5U);  // two of each, and what the papers print
  const auto title = [&](const char* kind, size_t i) { return record.at(kind)[i].at("title").get<std::string>(); };
  EXPECT_EQ(title("figures", 0), "Spectral norm of the error (SKY Fig. 1): L = 8, initial weights");
  EXPECT_EQ(title("tables", 3), "Median by block, 64 features or landmarks: L = 8, pretrained weights");
  for (const auto& figure : record.at("figures")) {
    const auto& nystrom = figure.at("curves")[0].at("points");
    EXPECT_LT(nystrom[1][1].get<double>(), nystrom[0][1].get<double>() - 1);  // 64 landmarks are nearly all rows
  }
  const auto scores = [&](size_t i) { return std::stod(record.at("tables")[i].at("rows")[0][1].get<std::string>()); };
  EXPECT_GT(scores(3), 10 * scores(1));

  std::filesystem::remove_all(folder / "run");
  EXPECT_NE(approximation(folder, options).err.find("name texts that it reads, with --text"), std::string::npos);
  arguments.emplace_back("--scales=2");
  EXPECT_NE(approximation(folder, arguments).err.find("its own; leave it out"), std::string::npos);
  arguments.back() = "--qkv=q.safetensors";
  EXPECT_NE(approximation(folder, arguments).err.find("give one of them"), std::string::npos);
  arguments.back() = "--task=features";
  EXPECT_NE(approximation(folder, arguments).err.find("it counts only with --task=spectral"), std::string::npos);
  arguments.back() = "--lengths=2";
  ended = approximation(folder, arguments);
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("no room for text"), std::string::npos) << ended.err;
}

TEST(ApproximationProgram, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  Ended ended = approximation(folder, {"--task=spectral", "--methods=nystroem"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("did you mean 'nystrom'"), std::string::npos) << ended.err;
  write_safetensors(folder / "q.safetensors", {{"Q", Tensor::zeros({1, 1, 4, 4})}});
  ended = approximation(folder, {"--task=spectral", "--qkv=q.safetensors"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("no tensor 'K'"), std::string::npos) << ended.err;
  EXPECT_EQ(approximation(folder, {"--task=features", "--scales=0"}).code, 2);
}

TEST(ApproximationProgram, RefusesWhatWouldChangeNothingOrNeverEnd) {
  const TemporaryFolder folder;
  for (const char* option : {"--steps=3", "--batch=3", "--attention=softmax"}) {
    const Ended ended = approximation(folder, {"--task=regions", option});
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find("leave it out; approximation has no use for it"), std::string::npos) << ended.err;
  }
  EXPECT_EQ(approximation(folder, {"--help"}).out.find("--batch"), std::string::npos);
  for (const char* option : {"--repeats=1000000000", "--layers=1000000000"}) {
    const Ended ended = approximation(folder, {"--task=layers", option});
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find("at most"), std::string::npos) << ended.err;
  }
  for (const auto& [task, options] : std::map<std::string, std::vector<std::string>>{
           {"regions", {"--length=8", "--features=8", "--repeats=1", "--dim=8"}},
           {"features", {"--lengths=8", "--heads=2", "--methods=nystrom"}},
           {"layers", {"--scales=1", "--lengths=8"}},
           {"spectral", {"--length=8", "--layers=2", "--hidden=8"}}}) {
    for (const std::string& option : options) {
      const Ended ended = approximation(folder, {"--task=" + task, option});
      EXPECT_EQ(ended.code, 2) << task << " " << option;
      EXPECT_NE(ended.err.find(": leave it out; it counts only with "), std::string::npos) << ended.err;
    }
  }
  write_file_atomically(folder / "file", "x");
  const Ended ended = approximation(folder, {"--task=regions", "--out=file"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("--out=file: that is a file; name a folder"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace bochner
