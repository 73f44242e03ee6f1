#include "datasets/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "engine/parallel.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

/// Example i has tokens 1, 2, ..., length and label i % 3.
std::shared_ptr<const PackedDataset<uint8_t>> counting(std::vector<int> lengths, int sequences = 1) {
  std::vector<uint8_t> tokens;
  std::vector<int64_t> offsets = {0};
  for (const int length : lengths) {
    for (int t = 1; t <= length; ++t) tokens.push_back(static_cast<uint8_t>(t));
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  std::vector<int32_t> labels(lengths.size() / static_cast<size_t>(sequences));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 3);
  return std::make_shared<const PackedDataset<uint8_t>>("toy", tokens, offsets, labels, sequences);
}

std::shared_ptr<const PackedDataset<uint8_t>> eleven() { return counting({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}); }

bool equal(const Batch& a, const Batch& b) {
  return a.ids.to_vector<int64_t>() == b.ids.to_vector<int64_t>() && a.ids.shape() == b.ids.shape() &&
         a.mask.to_vector<int64_t>() == b.mask.to_vector<int64_t>() &&
         a.lengths.to_vector<int64_t>() == b.lengths.to_vector<int64_t>() &&
         a.labels.to_vector<int64_t>() == b.labels.to_vector<int64_t>() && a.examples == b.examples &&
         a.epoch == b.epoch;
}

std::vector<Batch> take(Loader& loader, int64_t count) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(loader.next());
  return batches;
}

TEST(Loader, PadsToTheLongestOfTheBatchAndMasksByLength) {
  Loader loader(counting({2, 3, 1}), {.batch_size = 2, .pad_id = 7, .shuffle = false});
  const Batch first = loader.next();
  EXPECT_EQ(first.ids.shape(), Shape({2, 3}));
  EXPECT_EQ(first.ids.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 7, 1, 2, 3}));
  EXPECT_EQ(first.mask.to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(first.lengths.to_vector<int64_t>(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(first.labels.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(first.examples, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(first.ids.dtype(), DType::i64);
  EXPECT_EQ(first.mask.dtype(), DType::boolean);
  EXPECT_EQ(first.labels.dtype(), DType::i64);
  const Batch last = loader.next();
  EXPECT_EQ(last.ids.shape(), Shape({1, 1}));
}

TEST(Loader, MasksZerosWhereAsked) {
  const std::vector<uint8_t> tokens = {0, 5, 0, 6, 0, 0};
  const auto data = std::make_shared<const PackedDataset<uint8_t>>("toy", tokens, std::vector<int64_t>{0, 4, 6, 6},
                                                                   std::vector<int32_t>{0, 0, 0});
  const auto mask = [&](bool zeros) {
    Loader loader(data, {.batch_size = 3, .mask_zeros = zeros, .shuffle = false});
    return loader.next().mask.to_vector<int64_t>();
  };
  EXPECT_EQ(mask(false), (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0}));
  // The second sequence has only zeros, and keeps one; the third is empty.
  EXPECT_EQ(mask(true), (std::vector<int64_t>{0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Loader, LengthFollowsTheOptions) {
  const auto width = [](LoaderOptions options) {
    options.batch_size = 3;
    options.shuffle = false;
    options.prefetch = 0;
    return Loader(counting({2, 9, 4}), options).next();
  };
  EXPECT_EQ(width({}).ids.size(1), 9);
  EXPECT_EQ(width({.multiple_of = 8}).ids.size(1), 16);
  EXPECT_EQ(width({.multiple_of = 9}).ids.size(1), 9);
  EXPECT_EQ(width({.max_length = 20}).ids.size(1), 9);
  EXPECT_EQ(width({.least_length = 20}).ids.size(1), 20);
  EXPECT_EQ(width({.least_length = 8}).ids.size(1), 9);
  EXPECT_EQ(width({.max_length = 20, .least_length = 20, .multiple_of = 32}).ids.size(1), 20);
  EXPECT_EQ(width({.max_length = 20, .multiple_of = 8}).ids.size(1), 16);
  const Batch cut = width({.max_length = 3, .multiple_of = 2});
  EXPECT_EQ(cut.ids.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 0, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(cut.lengths.to_vector<int64_t>(), (std::vector<int64_t>{2, 3, 3}));
  const Batch behind = width({.max_length = 2, .least_length = 3});  // cut, and padded after the cut
  EXPECT_EQ(behind.ids.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(behind.lengths.to_vector<int64_t>(), (std::vector<int64_t>{2, 2, 2}));
}

TEST(Loader, EmptySequencesAreAllPadding) {
  Loader loader(counting({0, 0}), {.batch_size = 2, .shuffle = false});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.ids.shape(), Shape({2, 1}));
  EXPECT_EQ(batch.mask.to_vector<int64_t>(), (std::vector<int64_t>{0, 0}));
}

TEST(Loader, PairsHaveAnAxisOfTheirOwn) {
  Loader loader(counting({2, 1, 3, 0}, 2), {.batch_size = 2, .shuffle = false});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.ids.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(batch.ids.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 0, 1, 0, 0, 1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(batch.lengths.shape(), Shape({2, 2}));
  EXPECT_EQ(batch.lengths.to_vector<int64_t>(), (std::vector<int64_t>{2, 1, 3, 0}));
  EXPECT_EQ(batch.labels.shape(), Shape({2}));
}

TEST(Loader, PairsAreAsWideAsTheLongerText) {
  Loader loader(counting({1, 3}, 2), {.batch_size = 1, .shuffle = false});
  EXPECT_EQ(loader.next().ids.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0, 1, 2, 3}));
}

TEST(Loader, EveryEpochHoldsEachExampleOnceInAnotherOrder) {
  Loader loader(eleven(), {.batch_size = 4});
  EXPECT_EQ(loader.steps_per_epoch(), 3);
  std::set<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> order;
    for (const Batch& batch : take(loader, 3)) {
      EXPECT_EQ(batch.epoch, epoch);
      order.insert(order.end(), batch.examples.begin(), batch.examples.end());
    }
    orders.insert(order);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> all(11);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
  EXPECT_EQ(orders.size(), 5U);
}

TEST(Loader, DropLastLeavesOutWhatIsNotFull) {
  Loader loader(eleven(), {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(loader.steps_per_epoch(), 2);
  for (const Batch& batch : take(loader, 6)) EXPECT_EQ(batch.size(), 4);
  EXPECT_EQ(loader.next().epoch, 3);
  EXPECT_EQ(Loader(eleven(), {.batch_size = 11, .drop_last = true}).steps_per_epoch(), 1);
  EXPECT_EQ(Loader(eleven(), {.batch_size = 100}).steps_per_epoch(), 1);
}

TEST(Loader, OrderDependsOnSeedAndEpochOnly) {
  LoaderOptions options = {.batch_size = 4, .seed = 9};
  Loader first(eleven(), options);
  const std::vector<Batch> expected = take(first, 12);
  const int before = threads();
  for (const int count : {1, 2}) {
    set_threads(count);
    for (const int64_t prefetch : {0, 1, 2, 7}) {
      options.prefetch = prefetch;
      Loader loader(eleven(), options);
      for (const Batch& batch : expected) {
        ASSERT_TRUE(equal(loader.next(), batch)) << count << " threads, prefetch " << prefetch;
      }
    }
  }
  set_threads(before);
  // The order of examples is the same whatever the size of a batch.
  options.batch_size = 11;
  Loader whole(eleven(), options);
  const std::vector<int64_t> order = whole.next().examples;
  EXPECT_TRUE(std::equal(expected[0].examples.begin(), expected[0].examples.end(), order.begin()));
  options.seed = 10;
  EXPECT_NE(Loader(eleven(), options).next().examples, order);
}

TEST(Loader, GroupedByLengthLessIsPaddingAndEachExampleComesOnce) {
  std::vector<int> lengths;
  for (int i = 0; i < 47; ++i) lengths.push_back(1 + i * i * 7 % 97);
  LoaderOptions options = {.batch_size = 4, .max_length = 90, .seed = 3};
  const auto epoch = [&](int64_t group, bool shuffle) {
    options.group_by_length = group;
    options.shuffle = shuffle;
    Loader loader(counting(lengths), options);
    return take(loader, 12);
  };
  const auto tokens = [](const std::vector<Batch>& batches) {
    return std::accumulate(batches.begin(), batches.end(), int64_t{0},
                           [](int64_t sum, const Batch& batch) { return sum + batch.ids.size(); });
  };
  for (const bool shuffle : {false, true}) {
    EXPECT_LT(tokens(epoch(11, shuffle)), tokens(epoch(3, shuffle)));
    EXPECT_LT(tokens(epoch(3, shuffle)), tokens(epoch(0, shuffle)));
    std::vector<int64_t> seen;
    std::vector<int64_t> widths;
    for (const Batch& batch : epoch(11, shuffle)) {
      seen.insert(seen.end(), batch.examples.begin(), batch.examples.end());
      if (batch.size() == 4) widths.push_back(batch.ids.size(1));
    }
    EXPECT_EQ(std::is_sorted(widths.begin(), widths.end()), !shuffle);
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> all(47);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
  }
  Loader again(counting(lengths), options);
  again.go_to(17);
  Loader straight(counting(lengths), options);
  EXPECT_EQ(again.next().examples, take(straight, 18).back().examples);
}

TEST(Loader, FromAnyStepItGoesOnAsItWould) {
  for (const int64_t prefetch : {0, 3}) {
    const LoaderOptions options = {.batch_size = 4, .seed = 2, .prefetch = prefetch};
    Loader straight(eleven(), options);
    const std::vector<Batch> expected = take(straight, 9);
    Loader jumping(eleven(), options);
    for (size_t start = expected.size(); start-- > 0;) {
      Loader fresh(eleven(), options);
      for (Loader* loader : {&fresh, &jumping}) {
        loader->go_to(static_cast<int64_t>(start));
        for (size_t i = start; i < std::min(start + 4, expected.size()); ++i) {
          ASSERT_TRUE(equal(loader->next(), expected[i])) << "from " << start << ", batch " << i;
        }
      }
    }
  }
}

TEST(Loader, GoesToAnyStepThatThereIs) {
  Loader loader(eleven(), {.batch_size = 4});
  EXPECT_EQ(message_of([&] { loader.go_to(-1); }), "loader: toy has no batch -1; the first one is 0");
  constexpr int64_t kFar = int64_t{1} << 60;
  loader.go_to(3 * kFar + 2);
  EXPECT_EQ(loader.next().epoch, kFar);
  EXPECT_EQ(loader.next().epoch, kFar + 1);
}

/// Fails at example 5.
class Faulty final : public Dataset {
 public:
  const std::string& name() const override { return name_; }
  int64_t size() const override { return 8; }
  int64_t length(int64_t, int) const override { return 1; }
  void copy_tokens(int64_t example, int, std::span<int64_t> ids) const override {
    if (example == 5) fail("faulty: example 5");
    ids[0] = 1;
  }
  int64_t label(int64_t) const override { return 0; }

 private:
  std::string name_ = "faulty";
};

TEST(Loader, AnErrorAheadComesWhenItsBatchIsAskedFor) {
  for (const int64_t prefetch : {0, 4}) {
    Loader loader(std::make_shared<const Faulty>(), {.batch_size = 2, .shuffle = false, .prefetch = prefetch});
    EXPECT_EQ(loader.next().examples, (std::vector<int64_t>{0, 1}));
    EXPECT_EQ(loader.next().examples, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(message_of([&] { loader.next(); }), "faulty: example 5");
    EXPECT_EQ(message_of([&] { loader.next(); }), "faulty: example 5");
    loader.go_to(3);
    EXPECT_EQ(loader.next().examples, (std::vector<int64_t>{6, 7}));
  }
}

TEST(Loader, MayEndWhileBatchesAreBeingMade) {
  for (int i = 0; i < 50; ++i) {
    Loader loader(eleven(), {.batch_size = 1, .prefetch = 5});
    if (i % 3 > 0) loader.next();
    if (i % 3 > 1) loader.go_to(15);
  }
  const Loader never_used(eleven());
}

TEST(Loader, OptionsThatMakeNoSenseAreNamed) {
  const auto refused = [](const LoaderOptions& options) {
    return message_of([&] { Loader loader(eleven(), options); });
  };
  EXPECT_EQ(refused({.batch_size = 0}), "loader: batch_size 0 must be at least 1");
  EXPECT_EQ(refused({.max_length = -1}), "loader: max_length -1 is negative; 0 keeps all tokens");
  EXPECT_EQ(refused({.multiple_of = 0}), "loader: multiple_of 0 must be at least 1");
  EXPECT_EQ(refused({.prefetch = -1}), "loader: prefetch -1 is negative; 0 makes no batch ahead");
  EXPECT_EQ(refused({.least_length = -1}), "loader: least_length -1 is negative; 0 pads no batch");
  EXPECT_EQ(refused({.batch_size = 12, .drop_last = true}),
            "loader: toy has 11 examples, which do not fill one batch of 12; choose a smaller --batch");
  EXPECT_EQ(message_of([] { Loader loader(counting({})); }), "loader: toy has no examples");
  EXPECT_EQ(message_of([] { Loader loader(nullptr); }), "loader: no data set was given");
}

TEST(Dataset, ExamplesOutsideItAreRefused) {
  const auto dataset = counting({2, 3});
  EXPECT_EQ(message_of([&] { dataset->label(2); }), "toy: example 2 lies outside 0 ... 1");
  EXPECT_THROW(dataset->length(-1), Error);
  EXPECT_EQ(dataset->bytes(), 5);
  EXPECT_EQ(dataset->tokens(1).size(), 3U);
}

}  // namespace
}  // namespace bochner
