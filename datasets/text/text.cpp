#include "datasets/text/text.h"

#include <utility>

#include "datasets/text/imdb.h"
#include "engine/io/bytes.h"

namespace bochner::text {
namespace {

/// Texts of a half, added range by range.
struct Chosen {
  std::vector<int64_t> which;
  std::vector<int32_t> labels;

  void add(const std::vector<uint8_t>& positive, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      which.push_back(i);
      labels.push_back(positive[static_cast<size_t>(i)]);
    }
  }
};

}  // namespace

Task task(const TaskOptions& options) {
  if (options.max_length < 1) fail("text: max_length {} must be at least 1", options.max_length);
  return {.name = "text", .classes = 2, .vocabulary = kByteVocabulary, .max_length = options.max_length};
}

TaskData load_task(const TaskOptions& options, const Say& say) {
  TaskData data;
  data.task = task(options);
  Reviews reviews = read_imdb(options.folder, options.partial);
  const std::vector<uint8_t> train_labels = reviews.train.positive;
  const std::vector<uint8_t> test_labels = reviews.test.positive;
  const int64_t negatives = reviews.train.negatives();
  const int64_t all = reviews.train.count();
  const auto train_texts = std::make_shared<const Texts>(std::move(reviews.train.texts));
  const auto test_texts = std::make_shared<const Texts>(std::move(reviews.test.texts));
  const auto part = [](const char* name, const std::shared_ptr<const Texts>& texts, Chosen chosen) {
    return std::make_shared<ByteTexts>(std::string("text ") + name, texts, std::move(chosen.which),
                                       std::move(chosen.labels));
  };
  Chosen train;
  Chosen valid;
  Chosen test;
  test.add(test_labels, 0, test_texts->count());
  if (options.split == Split::held_out) {
    const int64_t held_negatives = negatives / 10;
    const int64_t held_positives = (all - negatives) / 10;
    if (held_negatives + held_positives < 1) {
      fail("{}: {} reviews are too few to hold some out", options.folder.string(), all);
    }
    train.add(train_labels, 0, negatives - held_negatives);
    train.add(train_labels, negatives, all - held_positives);
    valid.add(train_labels, negatives - held_negatives, negatives);
    valid.add(train_labels, all - held_positives, all);
    data.valid = part("valid", train_texts, std::move(valid));
  } else {
    train.add(train_labels, 0, all);
    data.valid = part("valid", test_texts, test);
    data.remarks.push_back(fmt::format("validation is the test set, as split={} has it: the best step is chosen by it",
                                       text_of(kSplits, options.split)));
  }
  data.train = part("train", train_texts, std::move(train));
  data.test = part("test", test_texts, std::move(test));
  if (all < 2 * kReviewsPerClass || data.test->size() < 2 * kReviewsPerClass) {
    data.remarks.push_back(fmt::format("only {} + {} of the {} + {} published reviews", all, data.test->size(),
                                       2 * kReviewsPerClass, 2 * kReviewsPerClass));
  }
  say(fmt::format(
      "text: {} + {} + {} reviews in {}, validation: {}", data.train->size(), data.valid->size(), data.test->size(),
      options.folder.string(),
      options.split == Split::held_out ? "held out of training, the last tenth of each class" : "the test set"));
  return data;
}

}  // namespace bochner::text
