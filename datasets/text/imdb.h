// The labelled film reviews of IMDb (Maas et al., Learning Word Vectors for Sentiment Analysis, ACL 2011): 12,500
// negative and 12,500 positive ones for training, as many for testing.
//
//   const Reviews reviews = read_imdb("data/imdb");
//   reviews.train.texts[0];          // "Story of a man who has unnatural feelings for a pig. ..."
//
// They are read as published, `{train,test}/{neg,pos}/NUMBER_SCORE.txt`, from the archive or unpacked:
//
//   aclImdb_v1.tar.gz                               (or .tar, .tar.zst, .zip)
//   aclImdb_train.tar.zst and aclImdb_test.tar.zst  (or .tar, .tar.gz, .zip)
//   aclImdb/train/neg/0_3.txt ...
//
// All of these give the same reviews in the same order, and the same hash in a run's record.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/catalogue.h"
#include "datasets/partial.h"
#include "datasets/text/byte_texts.h"

namespace bochner::text {

/// The reviews of one half: first the negative ones, then the positive ones, each in the order of their numbers.
struct Half {
  Texts texts;
  std::vector<uint8_t> positive;  ///< 0 or 1
  std::vector<int32_t> numbers;   ///< as in their file's name
  /// The lines of urls_neg.txt and urls_pos.txt: line NUMBER is the page of that review's film. Empty if the files are
  /// not there.
  std::vector<std::string> urls_negative, urls_positive;
  std::string sha256;  ///< of names and reviews
  int64_t urls_bytes = 0;
  std::string urls_sha256;  ///< of the two lists

  int64_t count() const { return texts.count(); }
  /// How many of them are negative: these come first.
  int64_t negatives() const;
};

struct Reviews {
  Half train, test;
};

/// Reviews of each class in each half, as published.
inline constexpr int64_t kReviewsPerClass = 12'500;

/// Reads the reviews in the folder. Reviews that are missing (unless `partial` takes what there is), duplicate, empty
/// or wrongly named, a damaged archive and a folder without reviews are Errors that name the file and say what to do.
Reviews read_imdb(const std::filesystem::path& folder, const Partial& partial = {});

/// Where to get them, for an Error and `data check` that name the folder first.
std::string imdb_remedy();
/// Whether the folder holds an archive of the reviews, or some of them unpacked.
bool has_imdb(const std::filesystem::path& folder);

/// Compares what is in `folder`, which holds the folder imdb, with what is published: the reviews of train and test and
/// the lists of addresses of both, or a single entry if they cannot be read.
std::vector<CheckedFile> check_imdb(const std::filesystem::path& folder, const std::vector<KnownFile>& published);

}  // namespace bochner::text
