#include "datasets/pairs/films.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/parallel.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner::pairs {
namespace {

using test::message_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;

/// `films` films of 2 + 2 reviews each; film 0 of the training half is also in the test half.
text::Half half(int films, int first) {
  text::Half half;
  half.sha256 = "hash" + std::to_string(first);
  for (const int positive : {0, 1}) {
    for (int i = 0; i < 2 * films; ++i) {
      half.texts.add(fmt::format("review {} of film {}", i % 2, first + i / 2));
      half.positive.push_back(static_cast<uint8_t>(positive));
      half.numbers.push_back(i);
      (positive == 1 ? half.urls_positive : half.urls_negative)
          .push_back(fmt::format("http://www.imdb.com/title/tt{:07}/usercomments", first + i / 2));
    }
  }
  return half;
}

text::Reviews reviews() { return {half(40, 0), half(15, 39)}; }

struct Places {
  std::vector<std::string> film;
  std::vector<int> positive;
};
Places places_of(const text::Reviews& reviews) {
  Places places;
  for (const text::Half* half : {&reviews.train, &reviews.test}) {
    for (int64_t i = 0; i < half->count(); ++i) {
      const bool positive = half->positive[static_cast<size_t>(i)] != 0;
      const auto number = static_cast<size_t>(half->numbers[static_cast<size_t>(i)]);
      places.film.push_back((positive ? half->urls_positive : half->urls_negative)[number]);
      places.positive.push_back(positive ? 1 : 0);
    }
  }
  return places;
}

TEST(Films, MoreRoundsAreMorePairsForTrainingAlone) {
  const text::Reviews all = reviews();
  const FilmPairs once = draw_films(all, {.seed = 1, .rounds = 1});
  const FilmPairs thrice = draw_films(all, {.seed = 1, .rounds = 3});
  EXPECT_GT(thrice.train.size(), once.train.size());
  EXPECT_EQ(thrice.valid.size(), once.valid.size());
  EXPECT_EQ(thrice.test.size(), once.test.size());
}

TEST(Films, LabelsAreRightAndNothingElseTellsThem) {
  const text::Reviews all = reviews();
  const Places places = places_of(all);
  const FilmPairs pairs = draw_films(all, {.seed = 1, .rounds = 3});
  std::vector<std::set<std::string>> films;
  for (const std::vector<Pair>* part : {&pairs.train, &pairs.valid, &pairs.test}) {
    ASSERT_FALSE(part->empty());
    std::set<std::string> here;
    std::map<std::pair<int64_t, bool>, int> firsts;
    std::map<std::pair<int64_t, bool>, int> seconds;
    std::map<std::array<int, 3>, int> judgements;
    for (const Pair& pair : *part) {
      const auto a = static_cast<size_t>(pair.first);
      const auto b = static_cast<size_t>(pair.second);
      EXPECT_EQ(places.film[a] == places.film[b], pair.same);
      EXPECT_NE(a, b);
      here.insert({places.film[a], places.film[b]});
      ++firsts[{pair.first, pair.same}];
      ++seconds[{pair.second, pair.same}];
      ++judgements[{places.positive[a], places.positive[b], pair.same ? 1 : 0}];
    }
    // Each review, on each side, and each pair of judgements occurs as often in pairs of one film as in pairs of two.
    for (const auto* counts : {&firsts, &seconds}) {
      for (const auto& [key, count] : *counts) EXPECT_EQ(counts->at({key.first, !key.second}), count);
    }
    for (const auto& [key, count] : judgements) EXPECT_EQ((judgements[{key[0], key[1], 1 - key[2]}]), count);
    films.push_back(here);
  }
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < i; ++j) {
      for (const std::string& film : films[i]) EXPECT_FALSE(films[j].contains(film)) << film;
    }
  }
  EXPECT_FALSE(films[0].contains(places.film[2 * 39])) << "of both halves: only in the test";
}

TEST(Films, DependOnTheSeedAlone) {
  const text::Reviews all = reviews();
  const FilmPairs one = draw_films(all, {.seed = 1});
  set_threads(2);
  EXPECT_EQ(draw_films(all, {.seed = 1}).train, one.train);
  set_threads(1);
  EXPECT_NE(draw_films(all, {.seed = 2}).train, one.train);
}

TEST(Films, FilesHoldThePairsWithAManifest) {
  const TemporaryFolder folder;
  const text::Reviews all = reviews();
  const auto ignore = [](const std::string&) {};
  EXPECT_EQ(ensure_films(folder.path(), all, {}, ignore), Ensured::made);
  EXPECT_EQ(ensure_films(folder.path(), all, {}, ignore), Ensured::verified);
  const std::string train = folder.contents(kFilmsTrain);
  const FilmPairs pairs = draw_films(all, {});
  const auto lines = std::count(train.begin(), train.end(), '\n');
  EXPECT_EQ(lines, std::ssize(pairs.train) + 1);
  EXPECT_TRUE(train.starts_with("label\tfirst\tsecond\n"));
  const Pair& first = pairs.train.front();
  const auto name = [&](int64_t place) {
    const bool positive = all.train.positive[static_cast<size_t>(place)] != 0;
    return fmt::format("train/{}/{}", positive ? "pos" : "neg", all.train.numbers[static_cast<size_t>(place)]);
  };
  const std::string row = fmt::format("\n{}\t{}\t{}\n", first.same ? 1 : 0, name(first.first), name(first.second));
  EXPECT_EQ(train.substr(train.find('\n'), row.size()), row);
  EXPECT_NE(message_of([&] { ensure_films(folder.path(), all, {.seed = 5}, ignore); }).find("seed"), std::string::npos);
}

TEST(Films, RefusesListsThatDoNotFit) {
  text::Reviews all = reviews();
  all.train.urls_positive.pop_back();
  EXPECT_NE(message_of([&] {
              draw_films(all, {});
            }).find("train/urls_pos.txt: the list has 79 lines, but there is a review of number 79"),
            std::string::npos);
  all = reviews();
  all.test.urls_negative[3] = "http://www.imdb.com/";
  EXPECT_NE(message_of([&] { draw_films(all, {}); }).find("test/urls_neg.txt: line 4: "), std::string::npos);
  all = {half(3, 0), half(3, 3)};
  EXPECT_NE(message_of([&] { draw_films(all, {}); }).find("too few"), std::string::npos);
}

}  // namespace
}  // namespace bochner::pairs
