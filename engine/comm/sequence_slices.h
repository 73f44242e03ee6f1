// Sequences that are cut into slices, each of which may lie in another process: sequence parallelism.
//
// Of a sequence of L tokens, slice k of K has the tokens [k L / K, (k + 1) L / K), rounded up. What is done token by
// token needs its own slice alone; what goes over tokens asks here, and gets the same bits for any number of processes:
//
//   sum, largest     over all slices, in the tree of shard_tree.h
//   hand_round       what one slice has, in one slice after the other round a ring (slice_ring.h)
//   sum_round        a sum on such a way, for one slice
//   carry_in, _out   a left fold: slice k goes on from what slice k - 1 has handed over, or from k + 1 on the way back
//
//   SequenceSlices slices(comm, tree);                   // the tree's leaves are the slices
//   slices.run(ids.size(1), [&](SequenceSlice& slice) {  // for each slice that this process holds
//     const Tensor own = slice.cut(ids);
//     const Tensor all = slice.sum(sum_of(own));          // all slices must come to the same questions
//   }, {});
//
// A process that holds several slices runs them in turns, each in a thread of its own, of which one goes on while the
// others wait: a slice goes on until it needs what another one has not given yet.
#pragma once

#include <functional>
#include <memory>

#include "engine/comm/shard_tree.h"
#include "engine/comm/slice_ring.h"
#include "engine/math.h"

namespace bochner {

class SequenceSlices;

/// One slice of every sequence of a batch, as the code sees it that runs on its tokens.
class SequenceSlice {
 public:
  /// From the first token to the last, or back.
  enum class Way : unsigned char { forward, back };

  int number() const { return number_; }
  int count() const { return count_; }
  bool is_first() const { return number_ == 0; }
  /// Of whole sequences, in tokens.
  int64_t length() const { return length_; }
  int64_t begin() const { return begin_of(number_); }
  int64_t end() const { return begin_of(number_ + 1); }
  /// This slice's part of x (..., length).
  Tensor cut(const Tensor& x) const;

  /// The sum, or elementwise the largest, of what all slices give: on the CPU, of one shape and type. All must ask.
  Tensor sum(const Tensor& x);
  Tensor largest(const Tensor& x);
  /// The x of the tour's first slice, which has this shape: a tensor that others may share, and none may write to. All
  /// must ask, with an x of the same type; where the tour does not come it is undefined.
  Tensor hand_round(const SliceTour& tour, const Tensor& x, const Shape& shape);
  /// In the tour's first slice the sum of what its slices give, of one shape and type, added in the order first + 1,
  /// ..., last, first; elsewhere undefined. All must ask, and outside of the tour x may be undefined.
  Tensor sum_round(const SliceTour& tour, const Tensor& x);
  /// What the slice before this one (on the way back: behind it) handed over, of the shape of `start` on the CPU;
  /// `start` itself, for the first on the way.
  Tensor carry_in(Way way, const Tensor& start);
  /// Hands x over to the next slice on the way; the last one keeps it. Each carry_in needs one carry_out, in order.
  void carry_out(Way way, const Tensor& x);

 private:
  friend class SequenceSlices;
  SequenceSlice(SequenceSlices& all, int number, int count, int64_t length)
      : all_(all), number_(number), count_(count), length_(length) {}
  int64_t begin_of(int number) const { return ceil_div(number * length_, int64_t{count_}); }
  int neighbour(Way way, bool next) const { return (way == Way::forward) == next ? number_ + 1 : number_ - 1; }

  SequenceSlices& all_;
  int number_;
  int count_;
  int64_t length_;
};

/// The slices that this process holds of one batch.
class SequenceSlices {
 public:
  /// The leaves of the tree are the slices, and all of its processes must run them.
  SequenceSlices(Communicator& comm, const ShardTree& tree);
  ~SequenceSlices();
  SequenceSlices(const SequenceSlices&) = delete;
  SequenceSlices& operator=(const SequenceSlices&) = delete;

  using Body = std::function<void(SequenceSlice&)>;
  /// What slices of one process would overwrite for each other: called before a slice goes on, and after it has
  /// stopped.
  struct Turns {
    std::function<void(int number)> begin;
    std::function<void(int number)> end;
  };
  /// Runs `body` for each slice that this process holds, on sequences of `length` tokens. What a body throws is thrown
  /// here, after the others were ended.
  void run(int64_t length, const Body& body, const Turns& turns);

 private:
  friend class SequenceSlice;
  class Runner;
  struct Question;
  Tensor ask(int number, Question question);
  /// Of what all slices ask together, an answer for each of this process.
  std::vector<Tensor> answer_together(const Question& question, const std::vector<Tensor>& given) const;
  Tensor largest_of_leaves(const std::vector<Tensor>& given) const;
  void send(const Question& question);
  Tensor receive(const Question& question);
  bool holds(int number) const { return number >= held_.begin && number < held_.end; }

  Communicator& comm_;
  const ShardTree& tree_;
  ShardTree::Node held_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace bochner
