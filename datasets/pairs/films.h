// Films: are two IMDb reviews about the same film? Pairs of documents are read byte by byte, as in Retrieval of the
// Long Range Arena, but the data are others: results cannot be compared with those of Retrieval.
//
//   const TaskData data = pairs::load_films({.imdb = "data/imdb"}, say);
//
// `urls_neg.txt` and `urls_pos.txt` of the published set tell which film a review is about. By IMDb's film numbers, no
// film is in two of training, validation and test: the test set has the films of the published test half, and
// validation a tenth of the films of the other half; the reviews of a film in both halves are only in the test set.
// For some films, IMDb has the same review under two numbers, so that 114 texts are in both training and test, and 1.3
// % of the test pairs are about such a film.
//
// Half of the pairs are about the same film. Each of these, (a, b), has a counterpart about two films, (a, b'), in
// which b' is the second review of another pair and has the same sentiment as b. So neither one review alone nor the
// sentiments of the two give away the label.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/making.h"
#include "datasets/partial.h"
#include "datasets/task.h"
#include "datasets/text/imdb.h"

namespace bochner::pairs {

inline constexpr const char* kFilmsTrain = "train.tsv";
inline constexpr const char* kFilmsValid = "valid.tsv";
inline constexpr const char* kFilmsTest = "test.tsv";

struct FilmsOptions {
  uint64_t seed = 0;
  /// How often each training review is paired with another one of the same film; in validation and test, once.
  int64_t rounds = 4;
  Partial partial = {};  ///< take fewer reviews than are published
};

/// A pair of reviews, as positions in the training half followed by the test half.
struct Pair {
  int64_t first, second;
  bool same;
  bool operator==(const Pair&) const = default;
};

struct FilmPairs {
  std::vector<Pair> train, valid, test;
};

/// Draws the pairs; they depend on the reviews and the options alone. An Error if a list of films is missing or shorter
/// than the numbers of the reviews require, or if there are too few films.
FilmPairs draw_films(const text::Reviews& reviews, const FilmsOptions& options);

/// For other programs: writes train.tsv, valid.tsv, test.tsv and a manifest, all or nothing (making.h): a header `label
/// first second`, then rows such as `1<TAB>train/pos/17<TAB>train/neg/4`.
Ensured ensure_films(const std::filesystem::path& folder, const text::Reviews& reviews, const FilmsOptions& options,
                     const Say& say);

struct FilmsTaskOptions {
  std::filesystem::path imdb = {};  ///< folder of the reviews
  FilmsOptions films = {};
  int64_t max_length = 4000;  ///< of each review
  /// At most this many pairs, the first of those drawn, which are in random order; 0: all.
  int64_t valid_examples = 0, test_examples = 0;
};

/// What a model must know of the data, without loading them.
Task films_task(const FilmsTaskOptions& options);
/// The task with its data: the pairs of draw_films, drawn each time.
TaskData load_films(const FilmsTaskOptions& options, const Say& say);

}  // namespace bochner::pairs
