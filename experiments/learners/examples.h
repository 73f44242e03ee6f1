// Batches of examples and their source: what a Learner needs from any data.
//
//   struct Examples        named tensors, each with the examples along its first axis
//   class Feed             batch after batch of them, and a way back to any
//   class ExamplesPlace    memory of a device where batch after batch is put
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tensor.h"

namespace bochner {

class SequenceSlice;

struct Examples {
  /// The tensors that the model and the objective look up by name, such as `ids`, `mask` and `labels`.
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::vector<int64_t> numbers;  ///< of the examples in their data set

  int64_t size() const { return static_cast<int64_t>(numbers.size()); }
  bool has(std::string_view name) const;
  /// An Error lists the tensors that there are.
  const Tensor& at(std::string_view name) const;
  Examples to(Device device) const;
  /// Part i of `parts` parts, whose sizes differ by at most one example.
  Examples part(int64_t i, int64_t parts) const;
  /// The same examples, with only the slice's part of the tensors of these names, which have tokens along their last
  /// axis.
  Examples of_slice(const SequenceSlice& slice, const std::vector<std::string>& names) const;
  /// The shapes as text: a recorded step depends on them.
  std::string shapes() const;
};

/// Batches in an order that depends only on the feed's own seed. Used by one thread at a time.
class Feed {
 public:
  virtual ~Feed() = default;
  Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// Does slow work that is needed once, before the first batch; otherwise next() does it.
  virtual void prepare() {}
  /// The next batch, on the CPU. Goes on from epoch to epoch without end.
  virtual Examples next() = 0;
  /// Makes next() return the batch of this step, counted from 0 over all epochs, and continue from there.
  virtual void go_to(int64_t step) = 0;
  /// The number of batches in an epoch, which has each example once.
  virtual int64_t steps_per_epoch() const = 0;
  /// The number of examples.
  virtual int64_t examples() const = 0;
};

/// Memory for batches, so that a recorded step (engine/step_graph.h) finds each batch at the same place.
class ExamplesPlace {
 public:
  explicit ExamplesPlace(Device device) : device_(device) {}
  /// The examples on the device, valid until the next call; on the CPU they are not copied.
  Examples put(const Examples& examples);
  /// Changes when a batch did not fit, since all batches are at another place from then on.
  int64_t moves() const { return moves_; }

 private:
  Device device_;
  std::map<std::string, Tensor> memory_;
  int64_t moves_ = 0;
};

}  // namespace bochner
