#include "datasets/pairs/films.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "engine/error.h"
#include "engine/io/csv.h"
#include "engine/io/data_log.h"
#include "engine/random.h"

namespace bochner::pairs {
namespace {

namespace fs = std::filesystem;
using text::Half;
using text::Reviews;

/// Increase it whenever the same reviews and options give other pairs.
constexpr const char* kVersion = "1";

/// Of the streams of the seed.
enum Stream : uint64_t { films = 1, train = 2, valid = 3, test = 4 };

template <class T>
void shuffle(std::vector<T>& items, Generator& random) {
  for (size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
}

/// What pairs are drawn from: the reviews of both halves, one after the other.
struct Pool {
  std::vector<std::string> film;
  std::vector<uint8_t> positive;
  std::vector<std::string> name;  ///< `train/pos/17`
};

/// `tt0064354` of `http://www.imdb.com/title/tt0064354/usercomments`.
std::string film_in(const std::string& url, const std::string& list, int64_t line) {
  const size_t begin = url.find("/title/");
  const size_t end = begin == std::string::npos ? begin : url.find('/', begin + 7);
  if (end == std::string::npos || end == begin + 7) {
    fail("films: {}: line {}: {} is no address of a film", list, line + 1, shown(url));
  }
  return url.substr(begin + 7, end - begin - 7);
}

void add(Pool& pool, const Half& half, const std::string& name) {
  for (int64_t i = 0; i < half.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const bool positive = half.positive[at] != 0;
    const std::vector<std::string>& urls = positive ? half.urls_positive : half.urls_negative;
    const std::string list = fmt::format("{}/urls_{}.txt", name, positive ? "pos" : "neg");
    if (half.numbers[at] >= std::ssize(urls)) {
      fail("films: {}: the list has {} lines, but there is a review of number {}; fetch the set again", list,
           urls.size(), half.numbers[at]);
    }
    pool.film.push_back(film_in(urls[static_cast<size_t>(half.numbers[at])], list, half.numbers[at]));
    pool.positive.push_back(half.positive[at]);
    pool.name.push_back(fmt::format("{}/{}/{}", name, positive ? "pos" : "neg", half.numbers[at]));
  }
}

Pool pool_of(const Reviews& reviews) {
  Pool pool;
  add(pool, reviews.train, "train");
  add(pool, reviews.test, "test");
  return pool;
}

/// Pairs of the same film: in each round the reviews of a film are shuffled, and neighbours paired. Each pair once.
std::vector<Pair> same_film(const std::map<std::string, std::vector<int64_t>>& films, int64_t rounds,
                            Generator& random) {
  std::vector<Pair> pairs;
  for (const auto& [film, reviews] : films) {
    std::set<std::pair<int64_t, int64_t>> drawn;
    std::vector<int64_t> order = reviews;
    for (int64_t round = 0; round < rounds; ++round) {
      shuffle(order, random);
      for (size_t i = 0; i + 1 < order.size(); i += 2) {
        if (drawn.insert(std::minmax(order[i], order[i + 1])).second) pairs.push_back({order[i], order[i + 1], true});
      }
    }
  }
  return pairs;
}

/// Adds a pair of two films for each pair of one. Pairs whose second reviews have the same sentiment exchange these
/// reviews.
std::vector<Pair> with_others(const std::vector<Pair>& pairs, const Pool& pool, Generator& random) {
  std::vector<Pair> all;
  for (const uint8_t positive : {uint8_t{0}, uint8_t{1}}) {
    std::vector<Pair> of_one;
    for (const Pair& pair : pairs) {
      if (pool.positive[static_cast<size_t>(pair.second)] == positive) of_one.push_back(pair);
    }
    std::vector<int64_t> seconds;
    for (const Pair& pair : of_one) seconds.push_back(pair.second);
    shuffle(seconds, random);
    const auto clash = [&](size_t i, size_t j) {
      return pool.film[static_cast<size_t>(of_one[i].first)] == pool.film[static_cast<size_t>(seconds[j])];
    };
    const size_t count = seconds.size();
    for (size_t i = 0; i < count; ++i) {  // the first later pair with which an exchange helps both
      for (size_t d = 1; clash(i, i) && d < count; ++d) {
        const size_t j = (i + d) % count;
        if (!clash(i, j) && !clash(j, i)) std::swap(seconds[i], seconds[j]);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (clash(i, i)) continue;  // where nearly all reviews are of one film
      all.push_back(of_one[i]);
      all.push_back({of_one[i].first, seconds[i], false});
    }
  }
  shuffle(all, random);
  return all;
}

std::vector<Pair> draw(const std::map<std::string, std::vector<int64_t>>& films, const Pool& pool, int64_t rounds,
                       Generator random) {
  const std::vector<Pair> same = same_film(films, rounds, random);
  return with_others(same, pool, random);
}

std::map<std::string, std::string> described(const Reviews& reviews, const FilmsOptions& options) {
  return {{"addresses_test", reviews.test.urls_sha256},
          {"addresses_train", reviews.train.urls_sha256},
          {"generator", kVersion},
          {"reviews_test", reviews.test.sha256},
          {"reviews_train", reviews.train.sha256},
          {"rounds", fmt::format("{}", options.rounds)},
          {"seed", fmt::format("{}", options.seed)}};
}

ManifestFile write(const fs::path& folder, const char* name, const std::vector<Pair>& pairs, const Pool& pool) {
  CsvWriter table(folder / name, CsvOptions::tsv());
  table.write_row({"label", "first", "second"});
  for (const Pair& pair : pairs) {
    table.write_row({pair.same ? "1" : "0", pool.name[static_cast<size_t>(pair.first)],
                     pool.name[static_cast<size_t>(pair.second)]});
  }
  table.commit();
  return entry_of(folder, name, std::ssize(pairs));
}

std::shared_ptr<const text::ByteTexts> data_set(const std::string& name, const std::vector<Pair>& pairs,
                                                const std::shared_ptr<const text::Texts>& texts) {
  std::vector<int64_t> which;
  std::vector<int32_t> labels;
  for (const Pair& pair : pairs) {
    which.insert(which.end(), {pair.first, pair.second});
    labels.push_back(pair.same ? 1 : 0);
  }
  log_generated(name, {std::as_bytes(std::span(which)), std::as_bytes(std::span(labels))});
  return std::make_shared<const text::ByteTexts>(name, texts, std::move(which), std::move(labels), 2);
}

/// Keeps only the first `count` pairs, and says so in a remark on the result.
void keep_first(int64_t count, std::vector<Pair>& pairs, const char* part, std::vector<std::string>& remarks) {
  if (count == 0 || count >= std::ssize(pairs)) return;
  remarks.push_back(fmt::format("only {} of {} pairs for {}, drawn at random", count, pairs.size(), part));
  pairs.resize(static_cast<size_t>(count));
}

}  // namespace

FilmPairs draw_films(const Reviews& reviews, const FilmsOptions& options) {
  if (options.rounds < 1) fail("films: rounds {} must be at least 1", options.rounds);
  const Pool pool = pool_of(reviews);
  const int64_t training = reviews.train.count();
  std::map<std::string, std::vector<int64_t>> of_train;
  std::map<std::string, std::vector<int64_t>> of_valid;
  std::map<std::string, std::vector<int64_t>> of_test;
  for (int64_t i = training; i < std::ssize(pool.film); ++i) of_test[pool.film[static_cast<size_t>(i)]].push_back(i);
  for (int64_t i = 0; i < training; ++i) {
    const std::string& film = pool.film[static_cast<size_t>(i)];
    if (!of_test.contains(film)) of_train[film].push_back(i);
  }
  std::vector<std::string> titles;
  for (const auto& [film, all] : of_train) titles.push_back(film);
  Generator random = Generator(options.seed).fork(Stream::films);
  shuffle(titles, random);
  titles.resize(titles.size() / 10);
  for (const std::string& film : titles) of_valid.insert(of_train.extract(film));
  const Generator root(options.seed);
  FilmPairs pairs = {draw(of_train, pool, options.rounds, root.fork(Stream::train)),
                     draw(of_valid, pool, 1, root.fork(Stream::valid)),
                     draw(of_test, pool, 1, root.fork(Stream::test))};
  if (pairs.train.empty() || pairs.valid.empty() || pairs.test.empty()) {
    fail("films: {} + {} + {} films of training, validation and test are too few for pairs", of_train.size(),
         of_valid.size(), of_test.size());
  }
  return pairs;
}

Ensured ensure_films(const fs::path& folder, const Reviews& reviews, const FilmsOptions& options, const Say& say) {
  const auto make = [&](const fs::path& at) {
    const FilmPairs pairs = draw_films(reviews, options);
    const Pool pool = pool_of(reviews);
    Manifest manifest = {"films", described(reviews, options), {}};
    manifest.files.push_back(write(at, kFilmsTrain, pairs.train, pool));
    manifest.files.push_back(write(at, kFilmsValid, pairs.valid, pool));
    manifest.files.push_back(write(at, kFilmsTest, pairs.test, pool));
    return manifest;
  };
  return ensure_made(folder,
                     {.dataset = "films",
                      .options = described(reviews, options),
                      .parts = {kFilmsTrain, kFilmsValid, kFilmsTest},
                      .parts_in_words = "three files {train,valid,test}.tsv",
                      .found = "pairs of reviews",
                      .making = fmt::format("pairs of reviews with seed {}", options.seed),
                      .make = make},
                     say);
}

Task films_task(const FilmsTaskOptions& options) {
  if (options.max_length < 1) fail("films: max_length {} must be at least 1", options.max_length);
  if (options.valid_examples < 0 || options.test_examples < 0) {
    fail("films: {} and {} pairs for validation and test must be at least 1, or 0 for all", options.valid_examples,
         options.test_examples);
  }
  return {.name = "films",
          .classes = 2,
          .vocabulary = text::kByteVocabulary,
          .max_length = options.max_length,
          .sequences = 2};
}

TaskData load_films(const FilmsTaskOptions& options, const Say& say) {
  TaskData data;
  data.task = films_task(options);
  const Reviews reviews = text::read_imdb(options.imdb, options.films.partial);
  for (const auto& [name, half] : {std::pair("train", &reviews.train), std::pair("test", &reviews.test)}) {
    DataLog::add({.name = (options.imdb / fmt::format("{}-urls", name)).string(),
                  .bytes = half->urls_bytes,
                  .sha256 = half->urls_sha256});
  }
  FilmPairs pairs = draw_films(reviews, options.films);
  keep_first(options.valid_examples, pairs.valid, "validation", data.remarks);
  keep_first(options.test_examples, pairs.test, "the test", data.remarks);
  const auto texts = std::make_shared<text::Texts>();
  for (const Half* half : {&reviews.train, &reviews.test}) {
    for (int64_t i = 0; i < half->count(); ++i) texts->add(half->texts[i]);
  }
  data.train = data_set("films train", pairs.train, texts);
  data.valid = data_set("films valid", pairs.valid, texts);
  data.test = data_set("films test", pairs.test, texts);
  const bool whole =
      reviews.train.count() == 2 * text::kReviewsPerClass && reviews.test.count() == reviews.train.count();
  if (!whole) {
    data.remarks.push_back(fmt::format("only {} + {} of the {} + {} published reviews", reviews.train.count(),
                                       reviews.test.count(), 2 * text::kReviewsPerClass, 2 * text::kReviewsPerClass));
  }
  say(fmt::format("films: {} + {} + {} pairs of reviews in {}, drawn with seed {}", data.train->size(),
                  data.valid->size(), data.test->size(), options.imdb.string(), options.films.seed));
  return data;
}

}  // namespace bochner::pairs
