// Batches in a reproducible order, made in advance by another thread.
//
//   Loader loader(data.train, {.batch_size = 32, .max_length = 2000, .seed = seed});
//   while (step < steps) {
//     const Batch batch = loader.next();                 // continues from epoch to epoch without end
//     ...
//   }
//   loader.go_to(step);                                  // the very batches that would have come
//
//   Loader test(data.test, {.batch_size = 32, .shuffle = false});
//   for (int64_t i = 0; i < test.steps_per_epoch(); ++i) score(test.next());
//
// The order of epoch e is a permutation that depends only on the data set, `seed`, `group_by_length` and e, not on
// threads, prefetching or how the run got there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "datasets/dataset.h"
#include "engine/tensor.h"

namespace bochner {

class Generator;

/// A batch of examples. For pairs (sequences() == 2), ids, mask and lengths have an axis of size 2 after the batch
/// axis.
struct Batch {
  Tensor ids;                     ///< (batch, length), i64, padded at the end
  Tensor mask;                    ///< (batch, length), bool: true where a token is real
  Tensor lengths;                 ///< (batch), i64: real tokens
  Tensor labels;                  ///< (batch), i64
  std::vector<int64_t> examples;  ///< their numbers in the data set
  int64_t epoch = 0;              ///< counted from 0

  int64_t size() const { return static_cast<int64_t>(examples.size()); }
  /// The same with all tensors on that device.
  Batch to(Device device) const;
};

struct LoaderOptions {
  int64_t batch_size = 32;
  /// Longer sequences keep their first `max_length` tokens; 0 keeps all.
  int64_t max_length = 0;
  /// The least length of a batch; shorter sequences are padded to it. It may be above max_length.
  int64_t least_length = 0;
  /// The mask is false at tokens 0, too, as in the code of LRA and SKY, which treat black pixels as padding. A sequence
  /// of zeros alone keeps its first token.
  bool mask_zeros = false;
  /// The length of a batch is rounded up to a multiple of this, but not above max_length if that is set.
  int64_t multiple_of = 1;
  int64_t pad_id = 0;
  bool shuffle = true;
  /// Groups examples of similar lengths, so that there is less padding: the examples of this many consecutive batches
  /// are sorted by length before they are divided into batches; with `shuffle`, all batches of the epoch are then
  /// shuffled. 0: no grouping.
  int64_t group_by_length = 0;
  uint64_t seed = 0;
  /// Omit the last batch of an epoch if it is not full.
  bool drop_last = false;
  /// How many batches another thread makes in advance; 0: each is made on request.
  int64_t prefetch = 2;
};

/// Used by one thread at a time.
class Loader {
 public:
  explicit Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return options_; }
  int64_t steps_per_epoch() const { return steps_; }

  Batch next();
  /// Goes to the batch that comes after `step` steps from the beginning. An Error if `step` is below 0.
  void go_to(int64_t step);

 private:
  /// The permutation of one epoch, remembered by whichever thread makes batches.
  struct Order {
    int64_t epoch = -1;
    std::vector<int64_t> examples;
  };

  void set_order(int64_t epoch);
  void group_by_length(Generator& generator);
  int64_t width(int64_t example) const;
  Batch make(int64_t step);
  void work();

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  int64_t steps_ = 0;
  int64_t step_ = 0;  ///< of the next batch, over all epochs
  Order order_;       ///< used only by work(), or by next() without prefetching

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  int64_t ahead_ = 0;           ///< the step of what work() makes next
  int64_t moves_ = 0;           ///< tells work() that what it makes is no longer wanted
  std::exception_ptr failure_;  ///< why work() could not make the batch of ahead_
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace bochner
