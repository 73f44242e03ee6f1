// The arena's tasks on texts, through the program, on small files that the tests write.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::TemporaryFolder;

Ended train(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  const std::vector<std::string> small = {
      BOCHNER_LRA,          "--model.layers=1", "--model.dim=16", "--model.hidden=16", "--model.classifier=0",
      "--model.features=8", "--batch=4",        "--steps=3",      "--threads=1"};
  arguments.insert(arguments.begin(), small.begin(), small.end());
  return Process(arguments, folder.path()).wait();
}

void write_reviews(const TemporaryFolder& folder) {
  for (const char* half : {"train", "test"}) {
    for (const char* sentiment : {"neg", "pos"}) {
      const auto below = std::filesystem::path(folder / "data/imdb/aclImdb") / half / sentiment;
      std::filesystem::create_directories(below);
      for (int i = 0; i < 30; ++i) {
        write_file_atomically(below / fmt::format("{}_{}.txt", i, sentiment[0] == 'n' ? 2 : 9),
                              fmt::format("{} review {} \xff", sentiment, i));
      }
    }
  }
}

TEST(TextTask, ThreeStepsAndTheRemarkBesideTheNumbers) {
  const TemporaryFolder folder;
  write_reviews(folder);
  const Ended trained =
      train(folder, {"--task=text", "--text.partial=true", "--text.split=kl", "--attention=performer", "--out=a"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("warning: text: validation is the test set"), std::string::npos) << trained.err;
  EXPECT_NE(trained.err.find("of which steps waited"), std::string::npos) << trained.err;
  EXPECT_NE(trained.out.find("Note: only 60 + 60 of the 25000 + 25000 published reviews."), std::string::npos)
      << trained.out;
  const auto results = nlohmann::json::parse(contents(folder / "a/results.json"));
  EXPECT_EQ(results["steps"], 3);
  EXPECT_EQ(results["remarks"].size(), 2U);
  EXPECT_EQ(results["metrics"]["valid"], results["metrics"]["test"]);
  ASSERT_EQ(results["data"].size(), 2U);
  EXPECT_EQ(results["data"][0]["file"], "data/imdb/train-reviews");
  const auto waited = results["waited_seconds"].get<double>();
  EXPECT_GT(waited, 0);
  EXPECT_LT(waited, results["train_seconds"].get<double>());
  EXPECT_NE(contents(folder / "a/report.html").find("validation is the test set"), std::string::npos);
  const Ended longer = Process({BOCHNER_LRA, "--out=a", "--resume", "--steps=6"}, folder.path()).wait();
  ASSERT_EQ(longer.code, 0) << longer.err;  // the sum over both sessions
  EXPECT_GT(nlohmann::json::parse(contents(folder / "a/results.json"))["waited_seconds"].get<double>(), waited);
  std::filesystem::remove(folder / "a/checkpoint-last");
  const Ended from_nothing = Process({BOCHNER_LRA, "--out=a", "--resume", "--steps=9"}, folder.path()).wait();
  EXPECT_EQ(from_nothing.code, 2);
  EXPECT_NE(from_nothing.err.find("checkpoint-last, from which it would go on, is missing"), std::string::npos)
      << from_nothing.err;
}

TEST(TextTask, AMessageNamesTheOptionAsEachProgramHasIt) {
  const TemporaryFolder folder;
  write_reviews(folder);
  const auto told = [](const Ended& ended, const std::string& option) {
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find("or take what is there with " + option + "\n"), std::string::npos) << ended.err;
  };
  told(train(folder, {"--task=text", "--out=a"}), "--text.partial");
  told(train(folder, {"--task=films", "--out=a"}), "--films.partial");
  told(Process({BOCHNER_DATA_PROGRAM, "make", "films"}, folder.path()).wait(), "--partial");
}

TEST(TextTask, PairsOfReviewsAndTheirBagsOfWords) {
  const TemporaryFolder folder;
  write_reviews(folder);
  for (const char* half : {"train", "test"}) {
    for (const char* sentiment : {"neg", "pos"}) {
      std::string urls;
      for (int i = 0; i < 30; ++i) urls += fmt::format("http://www.imdb.com/title/tt{}{}/usercomments\n", half, i);
      const auto below = std::filesystem::path(folder / "data/imdb/aclImdb") / half;
      write_file_atomically(below / fmt::format("urls_{}.txt", sentiment), urls);
    }
  }
  for (const char* pair : {"arena", "skyformer"}) {
    const Ended trained = train(folder, {"--task=films", "--films.partial=true", "--films.test-examples=3",
                                         fmt::format("--model.pair={}", pair), "--model.classifier=4",
                                         "--attention=performer", fmt::format("--out={}", pair)});
    ASSERT_EQ(trained.code, 0) << trained.err;
    const auto results = nlohmann::json::parse(contents(folder / fmt::format("{}/results.json", pair)));
    EXPECT_EQ(results["task"], "films");
    EXPECT_EQ(results["test_examples"], 3);
    EXPECT_NE(trained.out.find("pairs for the test, drawn at random"), std::string::npos) << trained.out;
    for (const char* baseline : {"majority class", "bag of bytes", "bag of words"}) {
      EXPECT_TRUE(results["baselines"].contains(baseline)) << baseline;
    }
    // Two halves of reviews, their lists of addresses, and the pairs drawn from them.
    ASSERT_EQ(results["data"].size(), 7U);
    EXPECT_EQ(results["data"][2]["file"], "data/imdb/train-urls");
    EXPECT_EQ(results["data"][4]["generated"], "films train");
  }
  const Ended made =
      Process({BOCHNER_DATA_PROGRAM, "make", "films", "--partial=true", "--rounds=2", "--seed=3"}, folder.path())
          .wait();
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("draws the same pairs itself, with --films.rounds=2 --films.data-seed=3 --films.partial\n"),
            std::string::npos)
      << made.out;
  EXPECT_TRUE(contents(folder / "data/films/train.tsv").starts_with("label\tfirst\tsecond\n"));
}

TEST(TextTask, PairsOfPapers) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data/retrieval");
  for (const char* part : {"train", "eval", "test"}) {
    std::string rows;
    for (int i = 0; i < 8; ++i) rows += fmt::format("{}.0\tP{}\tC{}\tb'paper \"{}'\tb'another'\n", i % 2, i, i, i);
    write_file_atomically(folder / fmt::format("data/retrieval/new_aan_pairs.{}.tsv", part), rows);
  }
  const Ended refused = train(folder, {"--task=retrieval", "--out=a"});
  EXPECT_NE(refused.err.find("or take what is there with --retrieval.partial\n"), std::string::npos) << refused.err;
  const Ended trained = train(folder, {"--task=retrieval", "--retrieval.partial=true", "--attention=performer",
                                       "--model.pooling=cls", "--out=a"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("Note: test: only 8 of the 17437 published pairs."), std::string::npos) << trained.out;
  EXPECT_EQ(nlohmann::json::parse(contents(folder / "a/results.json"))["steps"], 3);
}

TEST(TextTask, MissingReviewsAreToldInOneLine) {
  const TemporaryFolder folder;
  const Ended missing = train(folder, {"--task=text", "--out=a"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("data/imdb: there are no reviews; put aclImdb_v1.tar.gz there"), std::string::npos)
      << missing.err;
}

}  // namespace
}  // namespace bochner
