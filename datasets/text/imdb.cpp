#include "datasets/text/imdb.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "engine/io/archive.h"
#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/lines.h"
#include "engine/io/sha256.h"

namespace bochner::text {
namespace {

namespace fs = std::filesystem;

/// The longest published review has 13,704 bytes, the longest list of addresses 700,000.
constexpr int64_t kLargestReview = int64_t{1} << 20;
constexpr int64_t kLargestList = int64_t{16} << 20;
/// For all reviews of a half; the published ones have 33,000,000 bytes.
constexpr int64_t kMostText = int64_t{128} << 20;
constexpr const char* kSource = "ai.stanford.edu/~amaas/data/sentiment";

struct Review {
  int32_t number;
  int score;
  std::string text;
};

/// Everything found for a half, in any order.
struct Found {
  std::vector<Review> reviews[2];  ///< negative, positive
  std::string urls[2];
  int64_t bytes = 0;  ///< of the reviews

  int64_t count() const { return std::ssize(reviews[0]) + std::ssize(reviews[1]); }
};

/// `train/neg/0_3.txt` of a longer path, in its parts; nothing where it is another file.
struct Place {
  int half;                       ///< 0: train, 1: test
  std::optional<int> positive{};  ///< of a review
  std::optional<int> urls{};      ///< of a list: 0 negative, 1 positive
  std::string name;
};

std::optional<int> one_of(std::string_view text, std::string_view first, std::string_view second) {
  if (text == first) return 0;
  if (text == second) return 1;
  return std::nullopt;
}

std::optional<Place> place_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    parts.push_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  const size_t n = parts.size();
  if (n >= 3) {
    const std::optional<int> half = one_of(parts[n - 3], "train", "test");
    const std::optional<int> positive = one_of(parts[n - 2], "neg", "pos");
    if (half && positive) return Place{*half, positive, {}, std::string(parts[n - 1])};
  }
  if (n >= 2) {
    const std::optional<int> half = one_of(parts[n - 2], "train", "test");
    const std::optional<int> urls = one_of(parts[n - 1], "urls_neg.txt", "urls_pos.txt");
    if (half && urls) return Place{*half, {}, urls, std::string(parts[n - 1])};
  }
  return std::nullopt;
}

/// `12_9.txt`: number and score.
std::optional<std::pair<int32_t, int>> numbers_in(std::string_view name) {
  const auto number = [](std::string_view digits) -> std::optional<int32_t> {
    int32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
    return value;
  };
  const size_t line = name.find('_');
  if (!name.ends_with(".txt") || line == std::string_view::npos) return std::nullopt;
  const std::optional<int32_t> first = number(name.substr(0, line));
  const std::optional<int32_t> second = number(name.substr(line + 1, name.size() - 4 - line - 1));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

/// Takes one file of the set: `read` gives its bytes, `where` names it in messages.
template <class Read>
void take(std::string_view path, const std::string& where, const Read& read, std::array<Found, 2>& found) {
  const std::optional<Place> place = place_of(path);
  if (!place) return;
  Found& half = found.at(static_cast<size_t>(place->half));
  if (place->urls) {
    half.urls[*place->urls] = text_of(read(kLargestList));
    return;
  }
  const auto numbers = numbers_in(place->name);
  if (!numbers) fail("{}: the name is not NUMBER_SCORE.txt, as those of reviews are; remove it", where);
  const auto [number, score] = *numbers;
  if (*place->positive == 1 ? score < 7 || score > 10 : score < 1 || score > 4) {
    fail("{}: a score of {} is not that of a {} review", where, score, *place->positive == 1 ? "positive" : "negative");
  }
  std::vector<Review>& reviews = half.reviews[*place->positive];
  if (std::ssize(reviews) == kReviewsPerClass) {
    fail("{}: is one more than the {} reviews that are published of its kind; fetch the set again from {}", where,
         kReviewsPerClass, kSource);
  }
  const std::vector<std::byte> bytes = read(kLargestReview);
  if (bytes.empty()) fail("{}: the review is empty; fetch it again from {}", where, kSource);
  half.bytes += std::ssize(bytes);
  if (half.bytes > kMostText) {
    fail("{}: the reviews so far have more than {} bytes; fetch the set again from {}", where, kMostText, kSource);
  }
  reviews.push_back({number, score, std::string(text_of(bytes))});
}

void take_archive(const fs::path& path, std::array<Found, 2>& found) {
  // The log records the reviews, not how they were packed.
  ArchiveReader archive(std::make_unique<InputFile>(path));
  while (archive.next()) {
    const auto read = [&](int64_t limit) { return archive.read(limit); };
    take(archive.name(), fmt::format("{}: {}", path.string(), shown(archive.name())), read, found);
  }
}

void take_folder(const fs::path& folder, std::array<Found, 2>& found) {
  for (const char* half : {"train", "test"}) {
    for (const char* below : {"", "neg", "pos"}) {
      const fs::path at = folder / half / below;
      if (!fs::is_directory(at)) continue;
      for (const auto& entry : fs::directory_iterator(at)) {
        if (!entry.is_regular_file()) continue;
        const std::string path = entry.path().string();
        take(
            path, path, [&](int64_t limit) { return read_file(path, limit); }, found);
      }
    }
  }
}

std::array<Found, 2> find(const fs::path& folder) {
  std::array<Found, 2> found;
  if (const auto whole = find_archive(folder, "aclImdb_v1")) {
    take_archive(*whole, found);
    return found;
  }
  bool halves = false;
  for (const char* name : {"aclImdb_train", "aclImdb_test"}) {
    if (const auto half = find_archive(folder, name)) {
      take_archive(*half, found);
      halves = true;
    }
  }
  if (halves) return found;
  if (!fs::is_directory(folder / "aclImdb")) {
    fail("{}: there are no reviews; {}", folder.string(), imdb_remedy());
  }
  take_folder(folder / "aclImdb", found);
  return found;
}

void take_lists(const Found& found, const std::string& name, Half& half) {
  Sha256 hash;
  for (const int positive : {0, 1}) {
    const std::string& list = found.urls[positive];
    for (const std::string_view line : lines_of(list)) {
      (positive == 1 ? half.urls_positive : half.urls_negative).emplace_back(line);
    }
    hash.update(bytes_of(fmt::format("{}/urls_{}.txt {}\n", name, positive == 1 ? "pos" : "neg", list.size())));
    hash.update(bytes_of(list));
    half.urls_bytes += std::ssize(list);
  }
  half.urls_sha256 = hash.hex();
}

Half half_of(Found found, const std::string& name, const fs::path& folder, const Partial& partial) {
  if (found.count() == 0) fail("{}: there are no reviews of {}; {}", folder.string(), name, imdb_remedy());
  Half half;
  Sha256 hash;
  for (const int positive : {0, 1}) {
    std::vector<Review>& reviews = found.reviews[positive];
    std::sort(reviews.begin(), reviews.end(), [](const Review& a, const Review& b) {
      return std::tie(a.number, a.score) < std::tie(b.number, b.score);
    });
    const std::string part = fmt::format("{}/{}", name, positive == 1 ? "pos" : "neg");
    const auto count = static_cast<int64_t>(reviews.size());
    if (partial.taken ? count < 1 : count != kReviewsPerClass) {
      fail("{}: {} holds {} reviews, not {}; fetch the set again from {}{}", folder.string(), part, count,
           partial.taken ? "at least one" : fmt::format("the {} that are published", kReviewsPerClass), kSource,
           partial.taken ? "" : ", or take what is there with " + partial.option);
    }
    for (size_t i = 0; i < reviews.size(); ++i) {
      const Review& review = reviews[i];
      if (i > 0 && reviews[i - 1].number == review.number) {
        fail("{}: {} holds two reviews of number {}; fetch the set again from {}", folder.string(), part, review.number,
             kSource);
      }
      hash.update(bytes_of(fmt::format("{}/{}_{}.txt {}\n", part, review.number, review.score, review.text.size())));
      hash.update(bytes_of(review.text));
      half.texts.add(review.text);
      half.positive.push_back(static_cast<uint8_t>(positive));
      half.numbers.push_back(review.number);
    }
  }
  take_lists(found, name, half);
  half.sha256 = hash.hex();
  DataLog::add(
      {.name = (folder / (name + "-reviews")).string(), .bytes = std::ssize(half.texts.bytes), .sha256 = half.sha256});
  return half;
}

CheckedFile checked(const fs::path& path, int64_t bytes, const std::string& sha256, const KnownFile& published) {
  if (bytes == published.bytes && sha256 == published.sha256) return {path, FileState::right, ""};
  return {path, FileState::wrong_hash, "holds other text than is published"};
}

CheckedFile check_lists(const Found& found, const std::string& name, const fs::path& folder,
                        const KnownFile& published) {
  const fs::path path = folder / (name + "-urls");
  if (found.urls[0].empty() && found.urls[1].empty()) {
    return {path, FileState::missing, "is missing (which film each review is of: films needs it)"};
  }
  Half half;
  take_lists(found, name, half);
  return checked(path, half.urls_bytes, half.urls_sha256, published);
}

CheckedFile check_half(Found found, const std::string& name, const fs::path& folder, const KnownFile& published) {
  const fs::path path = folder / (name + "-reviews");
  const int64_t count = found.count();
  if (count == 0) return {path, FileState::missing, "is missing"};
  if (count < 2 * kReviewsPerClass) {
    return {path, FileState::incomplete,
            fmt::format("holds {} of the {} reviews that are published", count, 2 * kReviewsPerClass)};
  }
  const Half half = half_of(std::move(found), name, folder, {});
  return checked(path, std::ssize(half.texts.bytes), half.sha256, published);
}

}  // namespace

int64_t Half::negatives() const { return std::count(positive.begin(), positive.end(), 0); }

Reviews read_imdb(const fs::path& folder, const Partial& partial) {
  std::array<Found, 2> found = find(folder);
  Reviews reviews;
  reviews.train = half_of(std::move(found[0]), "train", folder, partial);
  reviews.test = half_of(std::move(found[1]), "test", folder, partial);
  return reviews;
}

std::string imdb_remedy() { return fmt::format("put aclImdb_v1.tar.gz there as it is, or unpacked, from {}", kSource); }

bool has_imdb(const fs::path& folder) {
  return find_archive(folder, "aclImdb_v1") || find_archive(folder, "aclImdb_train") ||
         find_archive(folder, "aclImdb_test") || fs::is_directory(folder / "aclImdb");
}

std::vector<CheckedFile> check_imdb(const fs::path& folder, const std::vector<KnownFile>& published) {
  const fs::path imdb = folder / "imdb";
  try {
    std::array<Found, 2> found;
    if (has_imdb(imdb)) found = find(imdb);
    const CheckedFile train_lists = check_lists(found[0], "train", imdb, published.at(2));
    const CheckedFile test_lists = check_lists(found[1], "test", imdb, published.at(3));
    return {check_half(std::move(found[0]), "train", imdb, published.at(0)),
            check_half(std::move(found[1]), "test", imdb, published.at(1)), train_lists, test_lists};
  } catch (const Error& error) {  // one entry, whichever half the fault is in
    return {{imdb, FileState::wrong_hash, error.what()}};
  }
}

}  // namespace bochner::text
